"""The grammar of plain words: a sentence is a list of clauses in any order, each about one part of a schedule.

::

    every weekday   at 9am and 5pm   in New York   until 2027-12-31   except 2026-12-25
    `-- days -----' `-- times -----' `-- zone ---' `-- window -----'  `-- exclusions --'

Commas and "and" between clauses are optional. A clause only fills in a part of the ``Sentence``; ``translator``
combines the parts. Days have their own ``day_grammar``. The parser makes one pass and looks ahead a few tokens at most.
"""

from collections.abc import Callable

from chronos.core.schedule.cron import FIRST_YEAR, LAST_YEAR
from chronos.core.schedule.iso8601 import Period
from chronos.core.schedule.words.day_grammar import DayReader
from chronos.core.schedule.words.sentence import CALENDAR_UNITS, Field, Sentence, Unclear
from chronos.core.schedule.words.timezone_names import MAX_NAME_WORDS, find_similar_zones, find_zones
from chronos.core.schedule.words.token_reader import AM_PM
from chronos.core.schedule.words.tokenizer import (
    FREQUENCIES,
    MONTHS,
    RANGE_WORDS,
    UNITS,
    WEEKDAYS,
    TokenKind,
    WordToken,
)

_FIELD_SIZES = {"second": 60, "minute": 60, "hour": 24}
_PARENTS = {"minute": "hour", "hour": "day"}
_PLURALS = {"seconds": "second", "minutes": "minute", "hours": "hour"}


def read_clauses(tokens: list[WordToken]) -> Sentence:
    """Read the tokens. Raises ``Unclear`` at the first token that cannot be read."""
    return _Reader(tokens).read()


class _Reader(DayReader):
    """Reads clause by clause; every method leaves the position after the clause it has read."""

    def read(self) -> Sentence:
        while not self.at_end():
            if self.peek_kind() is TokenKind.COMMA or self.word() == "and":
                self.position += 1
            else:
                self._clause()
        return self.sentence

    def _clause(self) -> None:
        word = self.word()
        clause = _CLAUSES.get(word)
        if clause is not None:
            clause(self)
        elif word in FREQUENCIES:
            self._frequency()
        elif self.peek_kind() is TokenKind.TIME or self._is_hour_with_half():
            self._times()
        elif not (self._count() or self.day_item() or self.month_item() or self._zone()):
            raise Unclear(self.position)

    # --- how often ---------------------------------------------------------------------------------------------

    def _every(self) -> None:
        """every 15 minutes · every 5 to 10 minutes · every other day · every Monday · every January"""
        start = self.skip()
        if self.take_word("other"):
            unit = UNITS.get(self.word())
            if unit is None:
                raise Unclear(self.position, 'has "every other", which needs a unit, as in "every other day"')
            self.take()
            self._set_amount(start, Period(months=unit.months * 2, days=unit.days * 2, us=unit.us * 2))
        elif self._is_unit_word():
            self._set_unit(start, self.take().text)
        elif self.at_amount():
            self._set_counted(start)
        elif self._random_amount(start) or self.day_item(every=True) or self.month_item():
            return
        else:
            raise Unclear(self.position)
        if self.take_words("by", "the", "clock"):
            self.sentence.by_clock = True
        elif self.take_words("by", "the", "calendar"):
            self.sentence.interval_kind = "calendar"
        self._of_fields()

    def _is_unit_word(self) -> bool:
        """A unit without a number; in "every second Monday" the second is not a unit."""
        word, after = self.word(), self.word(1)
        if word == "second" and (after in WEEKDAYS or after in ("day", "weekday")):
            return False
        if word == "second" and after == "and" and self.peek_kind(2) is TokenKind.ORDINAL:
            return False
        return word in UNITS and len(word) > 1 and not word.endswith("s")

    def _set_counted(self, start: int) -> None:
        """Read an amount; "every 1 day" is "every day"."""
        number, unit = self.peek(), UNITS.get(self.word(1))
        amount = self.amount()
        self._set_amount(start, amount)
        if self.word() in RANGE_WORDS:
            before = self.skip()
            if self.at_amount():
                self.sentence.longest = self.amount()
                return
            self.position = before
        if number is not None and number.value == 1 and amount == unit:
            self.sentence.calendar_unit = CALENDAR_UNITS.get(amount, "")

    def _random_amount(self, start: int) -> bool:
        """5 to 10 minutes: the unit belongs to both numbers"""
        kinds = (self.peek_kind(), self.peek_kind(2))
        if kinds != (TokenKind.NUMBER, TokenKind.NUMBER) or self.word(1) not in RANGE_WORDS:
            return False
        unit = UNITS.get(self.word(3))
        if unit is None:
            return False
        count = self.take().value
        self.take()
        self._set_amount(start, Period(months=unit.months * count, days=unit.days * count, us=unit.us * count))
        self.sentence.longest = self.amount()
        return True

    def _frequency(self) -> None:
        start = self.skip()
        self._set_unit(start, FREQUENCIES[self.tokens[start].text])

    def _set_unit(self, start: int, unit: str) -> None:
        amount = UNITS[unit]
        self._set_amount(start, amount)
        self.sentence.calendar_unit = CALENDAR_UNITS.get(amount, "")

    def _set_amount(self, start: int, amount: Period) -> None:
        self.sentence.mark_once("amount", start)
        self.sentence.amount = amount

    def _once(self) -> None:
        """once at 2027-01-01T00:00:00Z · once a day · once every 5 minutes"""
        start = self.skip()
        if self.word() == "every":
            return
        if self.take_word("a", "an", "per"):
            if not self._is_unit_word():
                raise Unclear(self.position)
            self._set_unit(start, self.take().text)
        else:
            self.sentence.mark_once("once", start)

    def _count(self) -> bool:
        """5 times"""
        if self.peek_kind() is not TokenKind.NUMBER or self.word(1) != "times":
            return False
        self.sentence.mark_once("count", self.position)
        self.sentence.count = self.take().value
        self.take()
        return True

    # --- at what time ------------------------------------------------------------------------------------------

    def _at(self) -> None:
        """at 9am and 17:00 · at minute 5 of every hour · at intervals of 2 hours · at 2027-01-01T00:00:00Z"""
        start = self.skip()
        if self.take_words("real", "intervals"):
            self.sentence.mark_once("real", start)
        elif self.take_words("intervals", "of") or self.take_words("calendar", "intervals", "of"):
            self.sentence.interval_kind = self.tokens[start + 1].text
            if not self.at_amount():
                raise Unclear(self.position)
            self._set_amount(start, self.amount())
        elif _PLURALS.get(self.word(), self.word()) in _FIELD_SIZES:
            self._fields()
        elif self.peek_kind() is TokenKind.DATE:
            self.day_item()
        elif not self._minutes_past():
            self._times()

    def _minutes_past(self) -> bool:
        """5 minutes past every hour · 5 past the hour"""
        unit = int(self.word(1) in ("minutes", "minute"))
        if self.peek_kind() is not TokenKind.NUMBER or self.word(1 + unit) != "past":
            return False
        self.sentence.mark_once("minute", self.position)
        self.sentence.fields["minute"] = Field(1 << self.number(0, 59, "minute"), False)
        self.position += unit
        self._of_fields()
        return True

    def _times(self) -> None:
        """Read a list of times, or the two ends of a window: 9am, noon and 17:30 · 9am to 5pm"""
        start = self.position
        first = self.time()
        if self.word() in RANGE_WORDS:
            self.take()
            self._set_window(start, first, self.time(), inclusive=True)
            return
        self.sentence.mark("times", start)
        self.sentence.times.append(first)
        while True:
            before = self.position
            self.skip_separators()
            if self.position == before or not self._is_another_time():
                self.position = before
                return
            self.sentence.times.append(self.time())

    def _is_another_time(self) -> bool:
        if self.peek_kind() is TokenKind.TIME:
            return self.word(1) not in RANGE_WORDS
        return self._is_hour_with_half() or self.is_list_number()

    def _is_hour_with_half(self) -> bool:
        return self.peek_kind() is TokenKind.NUMBER and self.word(1) in AM_PM

    def _fields(self) -> None:
        """minute 5 · minutes 3, 7 and 20 to 27 of hours 2 to 6 · second 30 of every minute"""
        name = _PLURALS.get(self.word(), self.word())
        self.sentence.mark_once(name, self.position)
        self.take()
        self.sentence.fields[name] = Field(self.number_list(_FIELD_SIZES[name] - 1, name), False)
        self._of_fields()

    def _of_fields(self) -> None:
        """of every hour · of every 2nd hour · past the hour · of minutes 1 and 2 of hours 3 to 5"""
        while self.word() in ("of", "past"):
            start = self.skip()
            if self.take_word("every", "the"):
                step = self.take().value if self.peek_kind() is TokenKind.ORDINAL else 1
                self._set_step(start, self.word(), step)
                self.take()
            elif _PLURALS.get(self.word(), self.word()) in ("minute", "hour"):
                self._fields()
            else:
                raise Unclear(self.position)

    def _set_step(self, start: int, name: str, step: int) -> None:
        if name not in ("minute", "hour"):
            raise Unclear(self.position)
        size = _FIELD_SIZES[name]
        if step == 0 or size % step:
            reason = f"has every {step}th {name}, which does not divide the {_PARENTS[name]} evenly; list the {name}s"
            raise Unclear(start, reason)
        self.sentence.mark_once(name, start)
        self.sentence.fields[name] = Field(sum(1 << value for value in range(0, size, step)), True)

    # --- from when to when -------------------------------------------------------------------------------------

    def _between(self) -> None:
        """between 9am and 5pm: 5pm is not included, so that the window is whole hours"""
        start = self.skip()
        first = self.time()
        if not self.take_word("and", *RANGE_WORDS):
            raise Unclear(self.position, hint='write it like "between 9am and 5pm"')
        self._set_window(start, first, self.time(), inclusive=False)

    def _from(self) -> None:
        """from 9am to 5pm, both included · from Monday to Friday · from 2027-01-01 · starting on 2027-01-01

        "from the start" counts an interval from the schedule's start, whichever that is.
        """
        start = self.skip()
        if self.take_words("the", "start"):
            self.sentence.interval_kind = self.sentence.interval_kind or "intervals"
            return
        self.take_word("on", "at", "from")
        if self.peek_kind() is TokenKind.DATE:
            self.sentence.mark_once("start", start)
            self.sentence.start = self.date()
            return
        if self.day_item() or self.month_item():
            return
        first = self.time()
        if not self.take_word("until", "till", *RANGE_WORDS):
            raise Unclear(self.position, hint='write it like "from 9am to 5pm" or "from 2027-01-01"')
        self._set_window(start, first, self.time(), inclusive=True)

    def _set_window(self, start: int, first: int, last: int, *, inclusive: bool) -> None:
        self.sentence.mark_once("window", start)
        self.sentence.window = (first, last, inclusive)

    def _until(self) -> None:
        """until 2027-12-31: a date without a time is included"""
        start = self.skip()
        self.take_word("on", "at")
        end = self.date()
        self.sentence.mark_once("end", start)
        self.sentence.end = end if "T" in end else f"{end}T23:59:59.999999"

    def _counted(self) -> None:
        """counted from 2027-01-31T09:00:00Z: the first occurrence, inside or outside the window"""
        start = self.skip()
        if not self.take_word("from"):
            raise Unclear(self.position)
        self.sentence.mark_once("anchor", start)
        self.sentence.anchor = self.date()

    # --- relative times ----------------------------------------------------------------------------------------

    def _in(self) -> None:
        """in 2 hours · in January · in 2027 · in the years 2027 to 2030 · in New York"""
        start = self.skip()
        if self.at_amount():
            self.sentence.mark_once("delay", start)
            self.sentence.delay = self.amount()
            if self.sentence.delay == Period():
                raise Unclear(start + 1, "has a delay of zero", count=2)
        elif self.word() in MONTHS:
            self.month_item()
        else:
            self.take_word("the")
            if self.take_word("year", "years") or self.peek_kind() is TokenKind.NUMBER:
                self.sentence.mark("years", start)
                self.sentence.years |= self.number_list(LAST_YEAR, "year", FIRST_YEAR) >> FIRST_YEAR
            elif not self._zone():
                raise self._unknown_place()

    def _day_from_now(self) -> None:
        """today · tomorrow"""
        self.sentence.mark_once("delay", self.position)
        self.sentence.delay = Period(days=int(self.word() == "tomorrow"))
        self.sentence.needs_time = True
        self.take()

    def _now(self) -> None:
        raise Unclear(
            self.position,
            'has "now", which is not a schedule',
            hint="leave out the schedule to run immediately",
        )

    # --- the rest ----------------------------------------------------------------------------------------------

    def _zone(self) -> bool:
        """Europe/Paris · New York · New York time"""
        words: list[str] = []
        while len(words) < MAX_NAME_WORDS and self.peek_kind(len(words)) is TokenKind.WORD:
            words.append(self.word(len(words)))
        for length in range(len(words), 0, -1):
            zones = find_zones(" ".join(words[:length]))
            if len(zones) > 1:
                name = " ".join(token.source for token in self.tokens[self.position :][:length])
                hint = f"say which: {' or '.join(zones)}"
                raise Unclear(self.position, f'has "{name}", which is more than one time zone', hint, length)
            if zones:
                self.sentence.mark_once("zone", self.position)
                self.sentence.zone = zones[0]
                self.position += length
                self.take_word("time")
                self.take_word("zone")
                return True
        return False

    def _unknown_place(self) -> Unclear:
        if self.peek_kind() is not TokenKind.WORD:
            return Unclear(self.position)
        words = [self.word(), self.word(1)] if self.peek_kind(1) is TokenKind.WORD else [self.word()]
        zones = find_similar_zones(" ".join(words)) or find_similar_zones(words[0])
        hint = f"did you mean {' or '.join(zones)}?" if zones else "use an IANA name such as Europe/Paris or UTC"
        place = self.tokens[self.position].source
        return Unclear(self.position, f'has the place "{place}", which does not name a time zone', hint)

    def _with(self) -> None:
        """with jitter up to 30 seconds · with up to 30 seconds of jitter"""
        self.take_word("with")
        is_named = self.take_word("jitter")
        start = self.position
        if not self.take_words("up", "to"):
            self.take_word("of")
        if not self.at_amount():
            raise Unclear(self.position)
        amount = self.amount()
        if not is_named and not (self.take_words("of", "jitter") or self.take_word("jitter")):
            raise Unclear(self.position)
        if amount.months or amount.days or not amount.us:
            raise Unclear(start, "has a jitter in days or a longer unit; use hours, minutes or seconds")
        self.sentence.mark_once("jitter", start)
        self.sentence.jitter_us = amount.us

    def _except(self) -> None:
        """except 2026-12-25, 2026-12-31 to 2027-01-02 and "0 12 * * *" · except Sundays · except in August"""
        self.sentence.mark("except", self.skip())
        self.take_word("on", "in")
        while True:
            if not self._exclusion():
                raise Unclear(self.position)
            before = self.position
            self.skip_separators()
            if self.position == before or not self._at_exclusion():
                self.position = before
                return

    def _at_exclusion(self) -> bool:
        return self.peek_kind() in (TokenKind.DATE, TokenKind.QUOTED) or self.word() in MONTHS or self.is_weekday()

    def _exclusion(self) -> bool:
        if self.peek_kind() is TokenKind.QUOTED:
            quoted = self.take().text
            if not quoted.isascii():
                raise Unclear(self.position - 1)
            self.sentence.exclude.append(quoted)
            return True
        if self.peek_kind() is TokenKind.DATE:
            days = self._whole_day()
            if self.take_word(*RANGE_WORDS):
                days += f"/{self._whole_day()}"
            self.sentence.exclude.append(days)
            return True
        if (weekdays := self.weekday_range()) is not None:
            self.sentence.excluded_weekdays |= weekdays
            return True
        if (months := self.month_range()) is not None:
            self.sentence.excluded_months |= months
            return True
        return False

    def _whole_day(self) -> str:
        day = self.date()
        if "T" in day:
            raise Unclear(self.position - 1, "excludes a time, expected a date")
        return day

    def _taking(self) -> None:
        if not self.take_words("taking", "clock", "changes", "literally"):
            raise Unclear(self.position)
        self.sentence.literal = True

    def _cron(self) -> None:
        """cron expression "0 9 * * 1-5" · schedule "@fiscal" · as the cron expression "0 9 * * 1-5" """
        start = self.position
        self.take_words("as", "the")
        if self.take_word("cron"):
            self.take_word("expression")
        elif not self.take_word("schedule"):
            raise Unclear(self.position)
        if self.peek_kind() is not TokenKind.QUOTED:
            raise Unclear(self.position, hint='put the cron expression in quotes: cron "0 9 * * 1-5"')
        self.sentence.mark_once("cron", start)
        self.sentence.cron = self.take().text

    def _or(self) -> None:
        self.sentence.mark_once("either", self.skip())
        if self.at_end():
            raise Unclear(self.position)


_CLAUSES: dict[str, Callable[[_Reader], None]] = {
    "every": _Reader._every,
    "once": _Reader._once,
    "at": _Reader._at,
    "on": _Reader.on,
    "if": _Reader.condition,
    "or": _Reader._or,
    "in": _Reader._in,
    "today": _Reader._day_from_now,
    "tomorrow": _Reader._day_from_now,
    "now": _Reader._now,
    "between": _Reader._between,
    "from": _Reader._from,
    "starting": _Reader._from,
    "beginning": _Reader._from,
    "until": _Reader._until,
    "till": _Reader._until,
    "ending": _Reader._until,
    "through": _Reader._until,
    "counted": _Reader._counted,
    "with": _Reader._with,
    "jitter": _Reader._with,
    "except": _Reader._except,
    "excluding": _Reader._except,
    "taking": _Reader._taking,
    "as": _Reader._cron,
    "cron": _Reader._cron,
    "schedule": _Reader._cron,
}
