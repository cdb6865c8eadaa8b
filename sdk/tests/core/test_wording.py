"""No text may lead a model back to a tool that is gone; a text that forbids it is what we want."""

import pytest
from recloser.core.wording import inviting

INVITING = (
    "Keep trying",
    "Keep on calling it.",
    "Continue to call the tool.",
    "Wait five minutes and call it",
    "Wait a moment.",
    "Wait 30 seconds, then try the search.",
    "repeat the call in 10 minutes",
    "Repeat the request.",
    "Call it until it works",
    "Ask the tool until it answers.",
    "one more time",
    "Give it another try.",
    "It deserves a second attempt.",
    "Try again.",
    "Try it once more.",
    "Try the search again in a few minutes.",
    "Please retry.",
    "re-try it",
    "Retries are fine.",
    "Rerun the query.",
    "Call it again",
    "It can be called again.",
    "Use the tool again later.",
    "Call it every 10 seconds.",
    "Call it a few more times.",
    "Check back later.",
    "The search is temporarily down.",
    "This is a temporary problem.",
    "Unavailable at the moment.",
    "Leave it for now.",
    "It will be back online.",
    "It is back in ten minutes.",
    "It should be available again.",
    "Use it as soon as it is back.",
    "Call it when it recovers.",
    "Do not give up: call it again.",
    "Do not give up.",
    "Don't stop trying.",
    "Do not hesitate to try it.",
    "If it does not answer try again.",
    "If there is no answer, retry.",
    "Do not worry and try again.",
    "No problem, retry.",
    "Do not call it now, but call it again.",
    "Do not wait, and call it again.",
    "Wait two hours, then call it.",
    "Do not use it now but try the tool again.",
    "Not working? Try again.",
    "TRY\nAGAIN",
    "Don\u2019t panic, call it again.",
)

FORBIDDING = (
    "Do not call it again",
    "Don't call it again.",
    "Don\u2019t call the tool again.",
    "Never retry.",
    "Do not retry it.",
    "Do not try again later.",
    "Do not keep trying.",
    "Do not ever try to call it again.",
    "It must not be called again.",
    "Do not wait five minutes and call it again.",
    "Do not repeat the call.",
    "Answer without calling it again.",
    "Answer from what you have instead of trying again.",
    "There is no point in trying again.",
    "There is no need to retry.",
    "It will not help to try again.",
    "It will not be back soon.",
    "This is not temporary.",
    "No retries.",
    "Stop retrying.",
    "Use web_search instead.",
    "Give a partial answer without it, and say so.",
    "Ask the user how to go on without it.",
    "Tell the user that a person will answer within two hours.",
    "Use the result you have, or change the approach.",
    "Recall what you know of the customer, and answer from it.",
    "Hand this part over to a person. Repeat the customer's question to them.",
    "Summarise the search results that you have.",
    "",
)


@pytest.mark.parametrize("text", INVITING)
def test_an_invitation_is_found_and_named(text):
    words = inviting(text)

    assert words and words.casefold() in " ".join(text.replace("\u2019", "'").split()).casefold()


@pytest.mark.parametrize("text", FORBIDDING)
def test_what_forbids_it_or_speaks_of_something_else_passes(text):
    assert inviting(text) is None


def test_a_long_text_is_judged_in_no_time():
    for word in ("wait ", "call ", "until the ", "not to "):
        assert inviting(word * 20_000) is None
