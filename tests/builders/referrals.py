"""Referral programs through the API."""

from __future__ import annotations

import uuid
from typing import Any

from tests.builders.tracking import GENERIC, Shop


def program_body(**more: Any) -> dict[str, Any]:
    """The body of a program for generic events that gives the referrer 100 points and the referred member 50."""
    return {
        "name": "Bring a friend",
        "active": True,
        "maxPerCode": 1000,
        "code": f"program-{uuid.uuid4()}",
        "eventType": GENERIC,
        "referrerPointsAccrual": 100,
        "referredPointsAccrual": 50,
        **more,
    }


class Friends:
    """A referral program of a shop, and the codes that members have in it."""

    def __init__(self, shop: Shop, **more: Any) -> None:
        self.shop = shop
        self.program = shop.administration.post("/referral-programs", program_body(**more))["referralProgram"]
        self.path = f"/referral-programs/{self.program['referralProgramId']}"

    def change(self, **more: Any) -> None:
        """Replace the program by `program_body` with these fields; the code remains."""
        body = program_body(code=self.program["code"], **more)
        self.shop.administration.put(self.path, body)

    def member_id(self, member: str) -> int:
        """The id of a member."""
        return self.shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]

    def codes(self, member: str, *codes: str) -> list[dict[str, Any]]:
        """Add codes of a member, by default one new code; return the records."""
        body = {"memberId": self.member_id(member), "codes": list(codes) or [f"code-{uuid.uuid4()}"]}
        return self.shop.administration.post(f"{self.path}/codes", body)["referrals"]

    def code(self, member: str) -> str:
        """Add a new code of a member; return its text."""
        return self.codes(member)[0]["code"]

    def record(self) -> dict[str, Any]:
        """The current program."""
        return self.shop.administration.get(self.path)["referralProgram"]

    def logs(self, code: str) -> list[dict[str, Any]]:
        """The logs of a code, newest first."""
        codes = self.shop.administration.get(f"{self.path}/codes", limit=100)["results"]
        [code_id] = [result["referralCodeId"] for result in codes if result["code"] == code]
        return self.shop.administration.get(f"{self.path}/codes/{code_id}/logs")["results"]

    def usages(self) -> dict[str, int]:
        """How often each code was used."""
        codes = self.shop.administration.get(f"{self.path}/codes", limit=100)["results"]
        return {result["code"]: result["totalUsages"] for result in codes}
