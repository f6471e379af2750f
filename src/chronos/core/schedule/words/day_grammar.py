"""The day clauses of plain words: weekdays, days of the month, dates, months.

Days of the month form groups: "the 1st, the 15th and the last day of January" is one, closed by its "of". The word
after an ordinal decides its kind: "the first and last Friday" are Fridays, "the first and last day" are days.
"""

from collections.abc import Mapping

from chronos.core.schedule.cron import LAST_NTH
from chronos.core.schedule.words.sentence import Days, Unclear
from chronos.core.schedule.words.token_reader import TokenReader
from chronos.core.schedule.words.tokenizer import MONTHS, RANGE_WORDS, WEEKDAYS, TokenKind

_MONDAY_TO_FRIDAY = 0b0111110
_WEEKEND = 0b1000001
_LAST = 0  # among ordinals
_LONGEST_MONTH = 31


class DayReader(TokenReader):
    """Reads the clauses about days, weekdays and months."""

    def on(self) -> None:
        """on Monday · on the 1st · on 25 December"""
        self.take()
        if not (self.day_item() or (self.word() in MONTHS and self.month_item())):
            raise Unclear(self.position)

    def condition(self) -> None:
        """if it is Monday or the last Friday: an additional condition for the day of the month"""
        self.sentence.mark_once("both", self.position)
        self.take()
        self.take_words("it", "is")
        while True:
            if not self.day_item():
                raise Unclear(self.position)
            before = self.position
            self.skip_separators()
            self.take_word("or")
            self.take_word("the")
            more = self.position > before and (self.is_weekday() or self._at_ordinal())
            if not more:
                self.position = before
                return

    def day_item(self, *, every: bool = False) -> bool:
        """Read any day clause; return False at any other token. ``every``: this word precedes it."""
        before = self.position
        self.take_word("the")
        start = self.position
        if self._nearest_weekday() or self._numbered_days() or self._calendar_date() or self._before_last():
            return True
        if (weekdays := self.weekday_range()) is not None:
            self.sentence.mark("weekdays", start)
            self.sentence.weekdays |= weekdays
            return True
        if self._at_ordinal():
            self._ordinals(start, every=every)
            return True
        self.position = before
        return False

    def is_weekday(self) -> bool:
        return self.word() in WEEKDAYS or self.word() in _DAY_SETS

    def weekday_range(self) -> int | None:
        """Monday · Monday to Friday · Saturday to Monday · weekdays"""
        if self.word() in _DAY_SETS:
            return _DAY_SETS[self.take().text]
        return self._range_of(WEEKDAYS, lowest=0, around=7)

    def _range_of(self, names: Mapping[str, int], *, lowest: int, around: int) -> int | None:
        """Return the mask of a name or of a range of names, which may wrap around; None at any other token."""
        first = names.get(self.word())
        if first is None:
            return None
        self.take()
        last = first
        if self.word() in RANGE_WORDS and self.word(1) in names:
            self.take()
            last = names[self.take().text]
        return sum(1 << (first - lowest + i) % around + lowest for i in range((last - first) % around + 1))

    def _nearest_weekday(self) -> bool:
        """the weekday nearest to the 15th · the nearest weekday to the 3rd day before the last day"""
        start = self.position
        if not (self.take_words("weekday", "nearest") or self.take_words("nearest", "weekday")):
            return False
        self.take_word("to")
        self.take_word("the")
        token = self.peek()
        if token is None or token.kind is not TokenKind.ORDINAL:
            raise Unclear(self.position)
        at = self.skip()
        if self.word() in ("day", "days") and self.word(1) == "before":
            back = self._days_before_last(at, token.value)
            self._add(start, Days(nearest_last=1 << back) if back else Days(nearest=1))
        else:
            self._add(start, Days(nearest=1 << self._day(at, token.value)))
        return True

    def _numbered_days(self) -> bool:
        """day 15 · days 1 to 7 and 20"""
        if self.word() not in ("day", "days") or self.peek_kind(1) is not TokenKind.NUMBER:
            return False
        start = self.position
        self.take()
        self._add(start, Days(days=self.number_list(_LONGEST_MONTH, "day", 1)))
        return True

    def _before_last(self) -> bool:
        """3 days before the last day"""
        if self.peek_kind() is not TokenKind.NUMBER or self.word(2) != "before":
            return False
        start = self.position
        back = self._days_before_last(start, self.take().value)
        self._add(start, Days(last=1 << back))
        return True

    def _days_before_last(self, start: int, back: int) -> int:
        """Read the rest of "3 days before the last day", and return the number, which began at ``start``."""
        if not self.take_word("day", "days") or not self.take_word("before"):
            raise Unclear(self.position)
        self.take_word("the")
        if not self.take_word("last"):
            raise Unclear(self.position)
        self.take_word("day")
        if back >= _LONGEST_MONTH:
            raise Unclear(start, f"goes {back} days back from the last, allowed 0–30")
        return back

    def _calendar_date(self) -> bool:
        """2027-01-01 · 25 December · December 25 · December 25th · 25 December 2027"""
        start = self.position
        if self.peek_kind() is TokenKind.DATE:
            self.sentence.mark_once("date", start)
            self.sentence.date = self.take().text.upper()
            return True
        if self.peek_kind() in (TokenKind.NUMBER, TokenKind.ORDINAL) and self.word(1) in MONTHS:
            day, month = self.take().value, MONTHS[self.take().text]
        elif self.word() in MONTHS and self.peek_kind(1) in (TokenKind.NUMBER, TokenKind.ORDINAL):
            month, day = MONTHS[self.take().text], self.take().value
        else:
            return False
        year = self.peek()
        if year is not None and year.kind is TokenKind.NUMBER and len(year.text) == 4:
            self.sentence.mark_once("date", start)
            self.sentence.date = f"{self.take().value:04d}-{month:02d}-{self._day(start, day):02d}"
            return True
        self._add(start, Days(days=1 << self._day(start, day)))
        self._close(1 << month)
        return True

    def _at_ordinal(self) -> bool:
        if self.word() == "second":
            return self.peek_kind(1) is not TokenKind.NUMBER
        return self.peek_kind() is TokenKind.ORDINAL or self.word() == "last"

    def _ordinals(self, start: int, *, every: bool) -> None:
        """the 1st · the 1st and 15th · the 20th to 25th · the last day · the first and third Monday"""
        ordinals: list[int] = []
        while True:
            at = self.position
            first = self._ordinal()
            last = first
            if self.word() in RANGE_WORDS:
                self.take()
                self.take_word("the")
                last = self._ordinal()
            if self.word() == "day" and self.word(1) == "before":
                self._add(start, _days_of_month(ordinals))
                self._add(at, Days(last=1 << self._days_before_last(at, first)))
                ordinals = []
            elif first > last or (last == _LAST) != (first == _LAST):
                raise Unclear(at, "has a range of days that goes backwards", count=self.position - at)
            else:
                ordinals += range(first, last + 1)
                self._day(at, max(1, last))
            before = self.position
            self.skip_separators()
            self.take_word("the")
            if self.position == before or not self._at_ordinal():
                self.position = before
                break
        if ordinals:
            self._resolve(start, ordinals, every=every)

    def _ordinal(self) -> int:
        token = self.take()
        if token.kind is TokenKind.ORDINAL:
            return token.value
        if token.text not in ("last", "second"):
            raise Unclear(self.position - 1)
        return 2 if token.text == "second" else _LAST

    def _resolve(self, start: int, ordinals: list[int], *, every: bool) -> None:
        """Apply the ordinals to the word that follows: a weekday, "weekday", or a day of the month."""
        weekday = WEEKDAYS.get(self.word())
        unit = self.word()
        if weekday is not None:
            self.take()
            days = Days(nth=sum(1 << self._nth(start, n) + weekday for n in set(ordinals)))
        elif self.take_word("weekday"):
            if set(ordinals) - {_LAST, 1}:
                raise Unclear(start, 'counts the weekdays of a month, which only "first" and "last" can do')
            days = Days(nearest=sum(1 << n for n in set(ordinals)))
        else:
            if not self.take_word("day", "days") and _LAST in ordinals and self.word() != "of":
                raise Unclear(self.position, 'has "last" without a day', 'as in "last day" or "last Friday"')
            days = _days_of_month(ordinals)
        if every and self.word() != "of" and max(ordinals) > 1 and (weekday is not None or unit == "day"):
            reason = "can mean once a month or an interval of days"
            raise Unclear(start, reason, 'say "of the month", or "every 2 days", "every 2 weeks from 2027-01-04"', 2)
        self._add(start, days)

    def _nth(self, start: int, nth: int) -> int:
        if nth > 5:
            raise Unclear(start, f"has number {nth} of a weekday in a month, allowed 1–5")
        return 7 * (LAST_NTH if nth == _LAST else nth - 1)

    def _day(self, at: int, day: int) -> int:
        if not 1 <= day <= _LONGEST_MONTH:
            raise Unclear(at, f"has the day {day}, allowed 1–31")
        return day

    def _add(self, start: int, days: Days) -> None:
        if days.nth:
            self.sentence.mark("weekdays", start)
        if days.has_month_days:
            self.sentence.mark("days", start)
        self.sentence.open_days |= days
        self._of_months()

    def _of_months(self) -> None:
        """of the month · of every month · of January and July: closes the preceding group of days"""
        if self.word() not in ("of", "in"):
            return
        if self.word(1) in ("the", "every", "a") and self.word(2) == "month":
            self.position += 3
            self._close(None)
        elif self.word() == "of" and self.word(1) in MONTHS:
            self.take()
            self._close(self._month_list())

    def _close(self, months: int | None) -> None:
        self.sentence.day_groups.append((self.sentence.open_days, months))
        self.sentence.open_days = Days()

    # --- months ------------------------------------------------------------------------------------------------

    def month_item(self) -> bool:
        """January · January to March: adds to the months of the schedule"""
        start = self.position
        months = self.month_range()
        if months is None:
            return False
        self.sentence.mark("months", start)
        self.sentence.months |= months
        return True

    def month_range(self) -> int | None:
        return self._range_of(MONTHS, lowest=1, around=12)

    def _month_list(self) -> int:
        mask = 0
        while True:
            mask |= self.month_range() or 0
            before = self.position
            self.skip_separators()
            if self.word() not in MONTHS or self.peek_kind(1) in (TokenKind.NUMBER, TokenKind.ORDINAL):
                self.position = before
                return mask


def _days_of_month(ordinals: list[int]) -> Days:
    return Days(days=sum(1 << n for n in set(ordinals) if n != _LAST), last=int(_LAST in ordinals))


_DAY_SETS = {
    "weekday": _MONDAY_TO_FRIDAY,
    "weekdays": _MONDAY_TO_FRIDAY,
    "weekend": _WEEKEND,
    "weekends": _WEEKEND,
}
