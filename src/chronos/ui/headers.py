"""Headers of every page: only own files, no inline script or style, no frames, no caching."""

from collections.abc import Mapping

PAGE_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "Vary": "Accept-Encoding, Cookie",
    "X-Content-Type-Options": "nosniff",
}
