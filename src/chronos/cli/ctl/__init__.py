"""``chronosctl``'s nouns: what one asks of a server.

``client`` speaks HTTP, ``servers`` says with which server, ``options`` are those that commands share, ``printing``
writes answers in the format asked for, ``watching`` looks again and again. Every other module is a noun, or its verbs.
"""
