"""Targets as JSON Schema: what a task may do, with the options of each kind.

Options are read by the runners, to whom null is no field that is left out; a number will do where text is meant.
"""

from chronos.api.openapi.schema_builders import Schema, any_of, closed, text, with_description
from chronos.api.routing import ref

_WORD: Schema = {"type": ["string", "number"]}
_WORDS: Schema = {"type": "object", "additionalProperties": _WORD}
_AMOUNT: Schema = {"type": ["string", "number"]}
_CODES: Schema = {"type": ["array", "null"], "minItems": 1, "maxItems": 100, "items": {"type": ["integer", "string"]}}

_HTTP = closed(
    "sends one request",
    {
        "url": with_description(
            "http:// or https://, perhaps with placeholders",
            {"type": "string", "maxLength": 8_192},
            "https://api.example.com/reports/{{ payload.kind }}",
        ),
        "method": text(
            "GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS; POST with a body or json, else GET, unless given",
            "POST",
            max_length=20,
        ),
        "headers": with_description("sent with it", _WORDS | {"maxProperties": 100}, {"X-Team": "billing"}),
        "query": with_description("added to the url", _WORDS | {"maxProperties": 1_000}, {"full": "yes"}),
        "json": {"description": "any value, sent as application/json"},
        "body": with_description("text, sent instead of json", {"type": "string"}),
        "auth": with_description(
            "how it says who sends it",
            {
                "type": "object",
                "required": ["type"],
                "additionalProperties": False,
                "properties": {
                    "type": {"type": "string", "enum": ["basic", "bearer", "api_key", "hmac"]},
                    "username": with_description("of basic", _WORD),
                    "password": with_description("of basic", _WORD),
                    "token": with_description("of bearer", _WORD),
                    "value": with_description("of api_key", _WORD),
                    "name": with_description(
                        "of api_key: the header, or the parameter of the query", _WORD, "X-API-Key"
                    ),
                    "in": with_description("of api_key", {"type": "string", "enum": ["header", "query"]}),
                    "secret": with_description("of hmac: signs as Standard Webhooks do", _WORD),
                },
            },
            {"type": "bearer", "token": "the token that you were given"},
        ),
        "success_codes": with_description(
            "statuses that mean success; 2xx unless given", _CODES, [200, "3xx", "500-504"]
        ),
        "retry_codes": with_description("statuses worth another try; 408, 425, 429 and 5xx unless given", _CODES),
        "redirects": with_description(
            "how many to follow; true is 5; none unless given",
            {"type": ["boolean", "integer"], "minimum": 0, "maximum": 10},
        ),
        "timeout": with_description("of the whole exchange; a number is seconds", _AMOUNT, "30s"),
    },
    {"url": "https://api.example.com/reports", "json": {"due": "{{ execution.scheduled_at }}"}},
    required=["url"],
)
_COMMAND = closed(
    "runs one program",
    {
        "argv": with_description(
            "the program and its arguments; no shell reads them",
            {"type": "array", "minItems": 1, "maxItems": 10_000, "items": _WORD},
            ["pg_dump", "--file", "/backups/shop.sql", "shop"],
        ),
        "shell": with_description("true: /bin/sh runs the text in command", {"type": "boolean"}),
        "command": with_description("what the shell runs", {"type": "string"}, "make report | mail ops"),
        "env": with_description("variables to add", _WORDS | {"maxProperties": 1_000}, {"PGHOST": "db"}),
        "cwd": with_description("the directory to run in, from the root", {"type": "string", "maxLength": 4_096}),
        "user": text("whom to run as; only where the node runs as root"),
        "stdin": with_description("true: the payload as JSON; or a text", {"type": ["boolean", "string"]}),
        "success_codes": with_description(
            "exit codes that mean success; 0 unless given",
            {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0, "maximum": 255}},
            [0, 2],
        ),
        "limits": closed(
            "of each process",
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
                    "processes at once, of the whole command", {"type": "integer", "minimum": 1, "maximum": 1 << 31}
                ),
            },
        ),
    },
    {"argv": ["pg_dump", "--file", "/backups/shop.sql", "shop"]},
)
_FUNCTION_LIMITS = closed(
    "of the process that a function runs in",
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
    "calls a function that a program registered under a name",
    {
        "name": with_description("of the function", {"type": "string", "minLength": 1}, "send_report"),
        "payload": {"description": "any JSON: what the function is given, unless a trigger brings something else"},
        "limits": any_of("of a function that runs in a process", ref("FunctionLimits")),
    },
    {"name": "send_report", "payload": {"team": "billing"}},
    required=["name"],
)
_WAIT = closed(
    "ends when its time comes, or a signal; it holds no worker meanwhile",
    {
        "until": with_description("an instant", {"type": "string", "maxLength": 256}, "2027-01-01T09:00:00Z"),
        "for": with_description("a duration; a number is seconds", _AMOUNT, "1h30m"),
        "schedule": with_description("the next instant of it", {"type": "string", "maxLength": 256}, "0 9 * * 1-5"),
        "timezone": with_description("of schedule and until", {"type": "string", "maxLength": 256}, "Europe/Paris"),
        "signal": with_description(
            "the name of a signal", {"type": "string", "minLength": 1, "maxLength": 200}, "approved"
        ),
        "timeout": with_description("how long to wait for the signal; a number is seconds", _AMOUNT, "48h"),
    },
    {"signal": "approved", "timeout": "48h"},
    **{"not": {"propertyNames": {"enum": ["timezone", "timeout"]}}},  # one of the others is needed
)

#: The fields that say what is done, one of which an object has.
TARGETS: Schema = {
    "http": any_of("sends a request", ref("HttpTarget")),
    "webhook": any_of("another name of http", ref("HttpTarget")),
    "command": any_of("runs a program", ref("CommandTarget")),
    "python": any_of("calls a registered function", ref("PythonTarget")),
    "wait": any_of("waits for a time or a signal", ref("WaitTarget")),
    "grpc": any_of("refused, unless a package brings such a target", ref("Anything")),
}
#: What else such an object may have: targets that packages bring. As ``additionalProperties`` it would be an index
#: signature of TypeScript, which every field of the object has to match.
OTHER_TARGETS: Schema = {
    "unevaluatedProperties": {
        "type": ["object", "null"],
        "description": "a target that a package brings, under its kind",
    }
}

TARGET_SCHEMAS: dict[str, Schema] = {
    "HttpTarget": _HTTP,
    "CommandTarget": _COMMAND,
    "PythonTarget": _PYTHON,
    "FunctionLimits": _FUNCTION_LIMITS,
    "WaitTarget": _WAIT,
    "Hook": with_description(
        "one target, which runs beside the tasks",
        {"type": "object", "properties": TARGETS, **OTHER_TARGETS},
        {"http": {"url": "https://hooks.example.com/done"}},
    ),
}
