"""The web UI: pages that the server renders, on top of the service layer.

``pages`` has one module per page, ``charts`` draws SVG, ``templates`` has the HTML and ``static`` the style sheet and
the scripts. ``app`` serves them, ``visit`` is one request as a page sees it, and ``live`` signals changes. The meaning
of an action belongs in ``chronos.service``; checking passwords and tokens belongs in ``chronos.api.auth``.
"""

from chronos.ui.accounts import Account, Accounts, SignInRefused
from chronos.ui.app import WebUi, is_ui_path, make_ui
from chronos.ui.options import UiOptions

__all__ = ["Account", "Accounts", "SignInRefused", "UiOptions", "WebUi", "is_ui_path", "make_ui"]
