"""The jobs of the demo, as a user would write them, each with the behaviour of its attempts."""

from dataclasses import dataclass, field
from typing import Any

from chronos.demo.behaviour import Behaviour, Trouble, days, hours

WAREHOUSE = 'HTTP 503: "the warehouse is read-only"'


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoJob:
    """A job of the demo. ``since_us`` is its age at the start of the demo."""

    definition: dict[str, Any]
    behaviour: Behaviour = field(default_factory=Behaviour)
    since_us: int = days(30)

    @property
    def name(self) -> str:
        return str(self.definition["name"])


def command(*argv: str) -> dict[str, Any]:
    """The target of a command."""
    return {"command": {"argv": list(argv)}}


def post(url: str, **options: Any) -> dict[str, Any]:
    """The target of a webhook."""
    return {"http": {"url": url, "method": "POST", **options}}


def demo_job(
    name: str,
    schedule: Any,
    target: dict[str, Any],
    *,
    behaviour: Behaviour | None = None,
    since_us: int = days(30),
    **settings: Any,
) -> DemoJob:
    """A demo job with one task."""
    definition = {"name": name, **({} if schedule is None else {"schedule": schedule}), **target, **settings}
    return DemoJob(definition=definition, behaviour=behaviour or Behaviour(), since_us=since_us)


def nightly_etl(*, region_eu: str) -> dict[str, Any]:
    """The graph of the nightly warehouse load. Version 2 loads the European region from another place."""
    return {
        "name": "nightly-etl",
        "description": "Copies the day's orders to the warehouse and mails the report.",
        "schedule": {"cron": "0 2 * * *", "timezone": "Europe/Paris"},
        "owner": "data-team",
        "tags": {"team": "data", "tier": "critical"},
        "mode": "graph",
        "task_timeout": "30m",
        "retry": {"max_attempts": 3, "initial_interval": "1m", "multiplier": 2},
        "tasks": [
            {"name": "extract", "command": {"argv": ["etl", "extract", "--day", "{{ execution.scheduled_at }}"]}},
            {"name": "load-eu", "needs": ["extract"], "http": {"url": f"https://{region_eu}/load", "method": "POST"}},
            {
                "name": "load-us",
                "needs": ["extract"],
                "http": {"url": "https://warehouse.us.example.com/load", "method": "POST"},
            },
            {"name": "report", "needs": ["load-eu", "load-us"], "command": {"argv": ["etl", "report", "--mail"]}},
        ],
    }


OLD_REGION, NEW_REGION = "warehouse.eu.example.com", "warehouse-2.eu.example.com"

#: Jobs that show one thing each: a failure, a retry storm, dead letters, a late job, a pause, a graph, recoveries.
_STORIES = (
    DemoJob(
        definition=nightly_etl(region_eu=OLD_REGION),
        behaviour=Behaviour(
            usual_s=95,
            lines=("reading orders", "412,774 rows read", "checksum ok"),
            result={"rows": 412_774},
            troubles=(Trouble(error=WAREHOUSE, from_us=days(2.5), task="load-eu", response=503),),
        ),
    ),
    demo_job(
        "invoice-export",
        "@every 15m",
        post("https://invoices.example.com/export"),
        since_us=days(3),
        owner="billing-team",
        tags={"team": "billing"},
        retry={"max_attempts": 6, "initial_interval": "20s", "multiplier": 2},
        behaviour=Behaviour(
            usual_s=3.1,
            lines=("exported 37 invoices",),
            troubles=(
                Trouble(
                    error="HTTP 429: too many requests", from_us=hours(5), to_us=hours(3), attempts=4, response=429
                ),
            ),
        ),
    ),
    demo_job(
        "payments-sync",
        "@every 1h",
        post("https://payments.example.com/sync"),
        since_us=days(8),
        owner="billing-team",
        tags={"team": "billing", "tier": "critical"},
        retry={"max_attempts": 2, "initial_interval": "30s"},
        payload={"batch": 500},
        behaviour=Behaviour(
            usual_s=6.4,
            lines=("500 payments matched",),
            troubles=(Trouble(error='HTTP 502: "upstream connect error"', from_us=days(7), share=0.14, response=502),),
        ),
    ),
    demo_job(
        "supplier-orders",
        "@every 20m",
        post("https://suppliers.example.com/orders"),
        owner="shop",
        tags={"team": "shop"},
        retry={"max_attempts": 8, "initial_interval": "2m", "multiplier": 1.5},
        since_us=hours(3),
        behaviour=Behaviour(
            usual_s=9,
            lines=("31 orders sent",),
            troubles=(Trouble(error="connection timed out after 10 s", from_us=hours(1), attempts=5),),
        ),
    ),
    demo_job(
        "train-recommender",
        {"cron": "0 */6 * * *"},
        command("train", "--epochs", "4"),
        owner="ml-team",
        tags={"team": "ml"},
        queue="gpu",
        placement={"labels": {"gpu": "true"}},
        since_us=hours(8),
    ),
    demo_job(
        "partner-feed",
        {"cron": "*/30 * * * *"},
        post("https://partner.example.net/feed"),
        since_us=days(8),
        owner="partners",
        tags={"team": "partners"},
        behaviour=Behaviour(usual_s=4.2, lines=("1,204 products sent",)),
    ),
    demo_job(
        "video-transcode",
        {"cron": "5 * * * *"},
        command("transcode", "--queue", "uploads"),
        since_us=days(10),
        task_timeout="1h",
        owner="media",
        tags={"team": "media"},
        overlap="queue",
        behaviour=Behaviour(
            usual_s=540, slow_share=0.1, slow_factor=2, lines=("14 videos", "pass 1 of 2", "pass 2 of 2")
        ),
    ),
    demo_job(
        "metrics-rollup",
        "@every 30m",
        command("rollup", "--from", "{{ span.from }}", "--to", "{{ span.to }}"),
        since_us=days(6),
        owner="platform",
        tags={"team": "platform"},
        recovery="compressed",
        behaviour=Behaviour(usual_s=11, lines=("30 minutes rolled up",)),
    ),
    demo_job(
        "cache-warm",
        "@every 15m",
        post("https://shop.example.com/cache/warm"),
        since_us=days(5),
        owner="shop",
        tags={"team": "shop"},
        recovery="skip",
        behaviour=Behaviour(usual_s=1.4, lines=("8,112 pages",)),
    ),
    demo_job(
        "inventory-sync",
        "@every 1h",
        command("inventory", "sync", "--full"),
        since_us=days(10),
        task_timeout="6h",
        execution_timeout="8h",
        owner="shop",
        tags={"team": "shop"},
        behaviour=Behaviour(
            usual_s=420, slow_share=0.06, slow_factor=22, lines=("connecting to 14 warehouses", "comparing stock")
        ),
    ),
    demo_job(
        "ledger-close",
        {"cron": "30 1 * * *", "timezone": "America/New_York"},
        command("ledger", "close"),
        owner="finance",
        tags={"team": "finance", "tier": "critical"},
        behaviour=Behaviour(usual_s=48, lines=("closing the day", "balanced")),
    ),
    demo_job(
        "backup-database",
        {"cron": "30 2 * * *", "timezone": "Europe/Paris"},
        command("pg_dump", "--format", "custom", "orders"),
        task_timeout="1h",
        owner="platform",
        tags={"team": "platform", "tier": "critical"},
        behaviour=Behaviour(usual_s=310, lines=("dumping orders", "18.4 GB written")),
    ),
    demo_job(
        "data-quality",
        None,
        command("quality", "check", "--all"),
        owner="data-team",
        tags={"team": "data"},
        after=["nightly-etl"],
        behaviour=Behaviour(usual_s=33, lines=("212 checks passed",)),
    ),
)

#: Jobs without a story.
_ROUTINE = (
    demo_job(
        "health-ping",
        "@every 1m",
        post("https://shop.example.com/healthz"),
        owner="shop",
        tags={"team": "shop"},
        since_us=hours(2),
        behaviour=Behaviour(usual_s=0.2),
    ),
    demo_job(
        "queue-depth",
        "@every 30s",
        command("queue-depth"),
        owner="platform",
        tags={"team": "platform"},
        since_us=hours(0.5),
        behaviour=Behaviour(usual_s=0.4, lines=("37 waiting",)),
    ),
    demo_job(
        "exchange-rates",
        {"cron": "5 * * * *", "timezone": "Europe/Berlin"},
        post("https://rates.example.com/pull"),
        since_us=days(14),
        owner="finance",
        tags={"team": "finance"},
        behaviour=Behaviour(usual_s=1.1),
    ),
    demo_job(
        "search-reindex",
        {"cron": "20 */4 * * *"},
        command("reindex", "--changed"),
        task_timeout="2h",
        execution_timeout="3h",
        owner="search",
        tags={"team": "search"},
        behaviour=Behaviour(usual_s=900, lines=("19,004 documents",)),
    ),
    demo_job(
        "abandoned-carts",
        {"cron": "10 * * * *"},
        post("https://shop.example.com/carts/remind"),
        since_us=days(10),
        owner="shop",
        tags={"team": "shop"},
        behaviour=Behaviour(usual_s=7),
    ),
    demo_job(
        "session-cleanup",
        {"cron": "40 * * * *"},
        command("sessions", "purge"),
        since_us=days(10),
        owner="platform",
        tags={"team": "platform"},
        behaviour=Behaviour(usual_s=5),
    ),
    demo_job(
        "fraud-scores",
        {"cron": "25 */2 * * *"},
        post("https://risk.example.com/score"),
        owner="risk",
        tags={"team": "risk", "tier": "critical"},
        behaviour=Behaviour(usual_s=64),
    ),
    demo_job(
        "price-import",
        {"cron": "15 6 * * 1-5", "timezone": "Europe/Paris"},
        command("prices", "import"),
        owner="shop",
        tags={"team": "shop"},
        behaviour=Behaviour(usual_s=130),
    ),
    demo_job(
        "daily-digest",
        {"cron": "0 8 * * 1-5", "timezone": "Europe/London"},
        post("https://mail.example.com/digest"),
        owner="marketing",
        tags={"team": "marketing"},
        behaviour=Behaviour(usual_s=22),
    ),
    demo_job(
        "weekly-newsletter",
        {"cron": "0 10 * * THU", "timezone": "Europe/London"},
        post("https://mail.example.com/newsletter"),
        owner="marketing",
        tags={"team": "marketing"},
        behaviour=Behaviour(usual_s=180),
    ),
    demo_job(
        "sales-report",
        {"cron": "30 7 * * MON", "timezone": "America/Chicago"},
        command("report", "sales"),
        owner="finance",
        tags={"team": "finance"},
        behaviour=Behaviour(usual_s=75),
    ),
    demo_job(
        "payroll-export",
        {"cron": "0 6 L * *", "timezone": "Europe/Berlin"},
        command("payroll", "export"),
        owner="hr",
        tags={"team": "hr", "tier": "critical"},
        delivery="at_most_once",
        behaviour=Behaviour(usual_s=40),
    ),
    demo_job(
        "tax-archive", {"cron": "0 4 2 1 *"}, command("archive", "--year"), owner="finance", tags={"team": "finance"}
    ),
    demo_job(
        "certificate-check",
        {"cron": "0 7 * * *"},
        command("certs", "check", "--days", "30"),
        owner="platform",
        tags={"team": "platform"},
        behaviour=Behaviour(usual_s=12),
    ),
    demo_job(
        "log-rotate",
        {"cron": "0 0 * * *"},
        command("logrotate", "/etc/logrotate.conf"),
        owner="platform",
        tags={"team": "platform"},
        behaviour=Behaviour(usual_s=3),
    ),
    demo_job(
        "image-thumbnails",
        {"cron": "50 */3 * * *"},
        command("thumbnails", "--missing"),
        task_timeout="1h",
        owner="media",
        tags={"team": "media"},
        behaviour=Behaviour(usual_s=210),
    ),
    demo_job(
        "sitemap",
        {"cron": "0 5 * * *"},
        command("sitemap", "build"),
        owner="search",
        tags={"team": "search"},
        behaviour=Behaviour(usual_s=61),
    ),
    demo_job(
        "crm-sync",
        {"cron": "35 */2 * * *"},
        post("https://crm.example.com/sync"),
        owner="sales",
        tags={"team": "sales"},
        behaviour=Behaviour(
            usual_s=18, troubles=(Trouble(error="connection refused by crm.example.com", share=0.04, attempts=1),)
        ),
    ),
    demo_job(
        "support-stats",
        {"cron": "0 9 * * *", "timezone": "Asia/Kolkata"},
        command("support", "stats"),
        owner="support",
        tags={"team": "support"},
        behaviour=Behaviour(usual_s=14),
    ),
    demo_job(
        "tokyo-close",
        {"cron": "0 15 * * 1-5", "timezone": "Asia/Tokyo"},
        post("https://markets.example.com/close"),
        owner="finance",
        tags={"team": "finance", "tier": "critical"},
        behaviour=Behaviour(usual_s=8),
    ),
    demo_job(
        "sydney-open",
        {"cron": "0 10 * * 1-5", "timezone": "Australia/Sydney"},
        post("https://markets.example.com/open"),
        owner="finance",
        tags={"team": "finance"},
        behaviour=Behaviour(usual_s=8),
    ),
    demo_job(
        "gdpr-erasure",
        {"cron": "0 3 * * *", "timezone": "Europe/Paris"},
        command("erase", "--requested"),
        owner="legal",
        tags={"team": "legal", "tier": "critical"},
        overlap="skip",
        behaviour=Behaviour(usual_s=26),
    ),
    demo_job(
        "stale-branches",
        {"cron": "0 12 * * FRI"},
        command("branches", "prune"),
        owner="platform",
        tags={"team": "platform"},
        behaviour=Behaviour(usual_s=9),
    ),
    demo_job(
        "old-importer",
        {"cron": "45 1 * * *"},
        command("importer", "--v1"),
        owner="shop",
        tags={"team": "shop"},
        behaviour=Behaviour(usual_s=88),
    ),
    demo_job(
        "hotfix-migration",
        None,
        command("migrate", "--once"),
        owner="platform",
        tags={"team": "platform"},
        since_us=days(6),
        behaviour=Behaviour(usual_s=71, lines=("3 tables migrated",)),
    ),
    demo_job(
        "quarterly-audit",
        {"cron": "0 8 1 1,4,7,10 *"},
        command("audit", "--quarter"),
        owner="finance",
        tags={"team": "finance"},
        since_us=days(2),
    ),
    demo_job(
        "sensor-import",
        {"cron": "0 */3 * * *", "timezone": "America/Sao_Paulo"},
        post("https://sensors.example.com/pull"),
        owner="platform",
        tags={"team": "platform"},
        behaviour=Behaviour(usual_s=5),
    ),
    demo_job(
        "warehouse-vacuum",
        {"cron": "0 4 * * SUN", "timezone": "Europe/Paris"},
        command("vacuum", "--full"),
        task_timeout="3h",
        execution_timeout="4h",
        owner="data-team",
        tags={"team": "data"},
        behaviour=Behaviour(usual_s=1_900),
    ),
)

DEMO_JOBS = (*_STORIES, *_ROUTINE)
