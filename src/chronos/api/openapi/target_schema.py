"""JSON Schemas of the targets, with the options of each kind.

Runners read the options: for them null is a value, not an absent field, and a number is accepted where text is
expected.
"""

from chronos.api.openapi.schema_builders import Schema, any_of, closed, text, with_description
from chronos.api.routing import ref

_WORD: Schema = {"type": ["string", "number"]}
_WORDS: Schema = {"type": "object", "additionalProperties": _WORD}
_AMOUNT: Schema = {"type": ["string", "number"]}
_CODES: Schema = {"type": ["array", "null"], "minItems": 1, "maxItems": 100, "items": {"type": ["integer", "string"]}}

_HTTP = closed(
    "an HTTP request",
    {
        "url": with_description(
            "http:// or https://, may contain placeholders",
            {"type": "string", "maxLength": 8_192},
            "https://api.example.com/reports/{{ payload.kind }}",
        ),
        "method": text(
            "GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS; by default POST with a body or json, else GET",
            "POST",
            max_length=20,
        ),
        "headers": with_description("request headers", _WORDS | {"maxProperties": 100}, {"X-Team": "billing"}),
        "query": with_description("parameters added to the url", _WORDS | {"maxProperties": 1_000}, {"full": "yes"}),
        "json": {"description": "any value, sent as application/json"},
        "body": with_description("text, sent instead of json", {"type": "string"}),
        "auth": with_description(
            "authentication",
            {
                "type": "object",
                "required": ["type"],
                "additionalProperties": False,
                "properties": {
                    "type": {"type": "string", "enum": ["basic", "bearer", "api_key", "hmac"]},
                    "username": with_description("for basic", _WORD),
                    "password": with_description("for basic", _WORD),
                    "token": with_description("for bearer", _WORD),
                    "value": with_description("for api_key", _WORD),
                    "name": with_description(
                        "for api_key: the name of the header or query parameter", _WORD, "X-API-Key"
                    ),
                    "in": with_description("for api_key", {"type": "string", "enum": ["header", "query"]}),
                    "secret": with_description("for hmac: signs as defined by Standard Webhooks", _WORD),
                },
            },
            {"type": "bearer", "token": "your token"},
        ),
        "success_codes": with_description(
            "statuses that mean success; 2xx by default", _CODES, [200, "3xx", "500-504"]
        ),
        "retry_codes": with_description("statuses that are retried; 408, 425, 429 and 5xx by default", _CODES),
        "redirects": with_description(
            "the number of redirects to follow; true means 5; none by default",
            {"type": ["boolean", "integer"], "minimum": 0, "maximum": 10},
        ),
        "timeout": with_description("for the request and its response; a number is seconds", _AMOUNT, "30s"),
    },
    {"url": "https://api.example.com/reports", "json": {"due": "{{ execution.scheduled_at }}"}},
    required=["url"],
)
_COMMAND = closed(
    "a program to run",
    {
        "argv": with_description(
            "the program and its arguments; not passed through a shell",
            {"type": "array", "minItems": 1, "maxItems": 10_000, "items": _WORD},
            ["pg_dump", "--file", "/backups/shop.sql", "shop"],
        ),
        "shell": with_description("true: /bin/sh runs the text in command", {"type": "boolean"}),
        "command": with_description("the text that the shell runs", {"type": "string"}, "make report | mail ops"),
        "env": with_description(
            "additional environment variables", _WORDS | {"maxProperties": 1_000}, {"PGHOST": "db"}
        ),
        "cwd": with_description("the working directory, an absolute path", {"type": "string", "maxLength": 4_096}),
        "user": text("the user to run as; only if the node runs as root"),
        "stdin": with_description("true: the payload as JSON; or text", {"type": ["boolean", "string"]}),
        "success_codes": with_description(
            "exit codes that mean success; 0 by default",
            {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0, "maximum": 255}},
            [0, 2],
        ),
        "limits": closed(
            "limits of each process",
            {
                "cpu_s": with_description("seconds of CPU", {"type": "integer", "minimum": 1, "maximum": 1 << 31}),
                "memory": with_description(
                    "bytes, or a size, of 1 MiB or more", {"type": ["string", "integer"]}, "512MiB"
                ),
                "file_size": with_description("bytes of one file, or a size", {"type": ["string", "integer"]}, "1GiB"),
                "files": with_description(
                    "open files, 16 or more", {"type": "integer", "minimum": 16, "maximum": 1 << 31}
                ),
                "processes": with_description(
                    "concurrent processes of the command", {"type": "integer", "minimum": 1, "maximum": 1 << 31}
                ),
            },
        ),
    },
    {"argv": ["pg_dump", "--file", "/backups/shop.sql", "shop"]},
)
_FUNCTION_LIMITS = closed(
    "limits of the process that a function runs in",
    {
        "cpu_s": with_description(
            "seconds of CPU", {"type": ["number", "null"], "exclusiveMinimum": 0, "exclusiveMaximum": 1_000_000_000}
        ),
        "memory": with_description(
            "bytes, or a size, of 1 MiB or more", {"type": ["string", "integer", "null"]}, "512MiB"
        ),
    },
)
_PYTHON = closed(
    "a registered Python function to call",
    {
        "name": with_description("the name of the function", {"type": "string", "minLength": 1}, "send_report"),
        "payload": {"description": "any JSON, passed to the function unless a trigger has its own payload"},
        "limits": any_of("limits of a function that runs in its own process", ref("FunctionLimits")),
    },
    {"name": "send_report", "payload": {"team": "billing"}},
    required=["name"],
)
_WAIT = closed(
    "waits for a time or a signal, without holding a slot",
    {
        "until": with_description("a time", {"type": "string", "maxLength": 256}, "2027-01-01T09:00:00Z"),
        "for": with_description("a duration; a number is seconds", _AMOUNT, "1h30m"),
        "schedule": with_description(
            "until the next time of this schedule", {"type": "string", "maxLength": 256}, "0 9 * * 1-5"
        ),
        "timezone": with_description(
            "the zone of schedule and until", {"type": "string", "maxLength": 256}, "Europe/Paris"
        ),
        "signal": with_description(
            "the name of a signal", {"type": "string", "minLength": 1, "maxLength": 200}, "approved"
        ),
        "timeout": with_description("the longest wait for the signal; a number is seconds", _AMOUNT, "48h"),
    },
    {"signal": "approved", "timeout": "48h"},
    **{"not": {"propertyNames": {"enum": ["timezone", "timeout"]}}},  # one of the others is needed
)

#: The fields of the targets. An object has one of them.
TARGETS: Schema = {
    "http": any_of("sends a request", ref("HttpTarget")),
    "webhook": any_of("another name of http", ref("HttpTarget")),
    "command": any_of("runs a program", ref("CommandTarget")),
    "python": any_of("calls a registered function", ref("PythonTarget")),
    "wait": any_of("waits for a time or a signal", ref("WaitTarget")),
    "grpc": any_of("rejected unless a package provides this target", ref("Anything")),
}
#: Targets that packages provide. As ``additionalProperties`` this would be an index signature in TypeScript, which
#: every field of the object would have to match.
OTHER_TARGETS: Schema = {
    "unevaluatedProperties": {
        "type": ["object", "null"],
        "description": "a target that a package provides, under its kind",
    }
}

TARGET_SCHEMAS: dict[str, Schema] = {
    "HttpTarget": _HTTP,
    "CommandTarget": _COMMAND,
    "PythonTarget": _PYTHON,
    "FunctionLimits": _FUNCTION_LIMITS,
    "WaitTarget": _WAIT,
    "Hook": with_description(
        "one target that runs before or after the tasks",
        {"type": "object", "properties": TARGETS, **OTHER_TARGETS},
        {"http": {"url": "https://hooks.example.com/done"}},
    ),
}
