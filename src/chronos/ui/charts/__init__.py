"""Charts as SVG: pure functions from numbers to markup, without style attributes.

Reading the numbers belongs in ``chronos.ui.pages``; colours belong in the style sheet.
"""
