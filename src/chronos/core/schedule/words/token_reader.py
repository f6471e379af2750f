"""Reads the building blocks of clauses: a word, a number, an amount, a time, a date."""

from fractions import Fraction

from chronos.core.schedule.iso8601 import Period
from chronos.core.schedule.words.sentence import Sentence, Unclear
from chronos.core.schedule.words.tokenizer import MONTHS, RANGE_WORDS, UNITS, TokenKind, WordToken, to_24_hours

AM_PM = ("am", "pm")


class TokenReader:
    """A position in a list of tokens; every method leaves it after the tokens it has read."""

    def __init__(self, tokens: list[WordToken]) -> None:
        self.tokens = tokens
        self.position = 0
        self.sentence = Sentence()

    def at_end(self) -> bool:
        return self.position >= len(self.tokens)

    def peek(self, ahead: int = 0) -> WordToken | None:
        at = self.position + ahead
        return self.tokens[at] if at < len(self.tokens) else None

    def peek_kind(self, ahead: int = 0) -> TokenKind | None:
        token = self.peek(ahead)
        return token.kind if token else None

    def word(self, ahead: int = 0) -> str:
        token = self.peek(ahead)
        return token.text if token and token.kind is TokenKind.WORD else ""

    def take(self) -> WordToken:
        token = self.peek()
        if token is None:
            raise Unclear(self.position)
        self.position += 1
        return token

    def skip(self) -> int:
        """Skip a token and return its position."""
        self.position += 1
        return self.position - 1

    def take_word(self, *words: str) -> bool:
        if self.word() not in words or not self.word():
            return False
        self.position += 1
        return True

    def take_words(self, *words: str) -> bool:
        if any(self.word(i) != word for i, word in enumerate(words)):
            return False
        self.position += len(words)
        return True

    def skip_separators(self) -> None:
        while self.peek_kind() is TokenKind.COMMA or self.word() == "and":
            self.position += 1

    def number_list(self, high: int, unit: str, low: int = 0) -> int:
        """Read "3, 7 and 20 to 27" as a mask."""
        mask = 0
        while True:
            first = self.number(low, high, unit)
            last = first
            if self.word() in RANGE_WORDS:
                self.position += 1
                last = self.number(first, high, unit)
            mask |= (2 << last) - (1 << first)
            before = self.position
            self.skip_separators()
            if self.position == before or not self.is_list_number():
                self.position = before
                return mask

    def is_list_number(self) -> bool:
        """Whether a number is here that does not begin an amount, a date or "5 times"."""
        after = self.word(1)
        return self.peek_kind() is TokenKind.NUMBER and not (after in UNITS or after in MONTHS or after == "times")

    def number(self, low: int, high: int, unit: str) -> int:
        token = self.peek()
        if token is None or token.kind is not TokenKind.NUMBER:
            raise Unclear(self.position)
        if not low <= token.value <= high:
            raise Unclear(self.position, f"has the {unit} {token.value}, expected {low}–{high} here")
        self.position += 1
        return token.value

    def at_amount(self) -> bool:
        if self.word() == "half":
            return self.word(1) == "hour" or (self.word(1), self.word(2)) == ("an", "hour")
        if self.word() in ("a", "an"):
            return self.word(1) in UNITS
        return self.peek_kind() in (TokenKind.NUMBER, TokenKind.DECIMAL) and self.word(1) in UNITS

    def amount(self) -> Period:
        """2 hours · 1 hour 30 minutes · 1 hour and 30 minutes · 1.5 hours · an hour · half an hour"""
        total = self._amount_part()
        while True:
            before = self.position
            self.skip_separators()
            if not self.at_amount() or self.word(2) == "before":
                self.position = before
                return total
            part = self._amount_part()
            total = Period(months=total.months + part.months, days=total.days + part.days, us=total.us + part.us)

    def _amount_part(self) -> Period:
        start = self.position
        token = self.take()
        count = Fraction(token.text) if token.kind is TokenKind.DECIMAL else Fraction(token.value)
        if token.kind is TokenKind.WORD:
            count = Fraction(1, 2) if token.text == "half" else Fraction(1)
            self.take_word("an")
        unit = UNITS[self.take().text]
        if count.denominator != 1 and not unit.us:
            raise Unclear(start, "has a fraction of a day or of a longer unit; use hours", count=2)
        return Period(months=unit.months * int(count), days=unit.days * int(count), us=int(unit.us * count))

    def time(self) -> int:
        """Read 09:30 · 9:30 pm · 8 · 8 o'clock · noon as a second of the day"""
        token = self.peek()
        if token is None or token.kind not in (TokenKind.TIME, TokenKind.NUMBER):
            raise Unclear(self.position, hint='write a time like "9am", "09:30", "noon" or "midnight"')
        second: int | None = token.value
        if token.kind is TokenKind.NUMBER:
            second = token.value * 3600 if token.value < 24 else None
        start = self.skip()
        whole_clock = token.kind is TokenKind.TIME and not token.text[-1].isdigit()
        if self.word() in AM_PM and second is not None and not whole_clock:
            second = to_24_hours(second, self.take().text)
        elif self.word() == "o'clock":
            self.take()
        if second is None:
            raise Unclear(start, f'has the time "{token.source}", expected 0:00 to 23:59 or 1 to 12 am or pm')
        return second

    def date(self) -> str:
        if self.peek_kind() is not TokenKind.DATE:
            raise Unclear(self.position, hint='write a date like "2027-01-01" or "2027-01-01T09:00:00Z"')
        return self.take().text.upper()
