"""What a person types about a dead letter: a new payload, or why it is discarded.

Before it: the pages of `letter_admin`. After it: `dead_letters`.
"""

from django import forms

from streaming.handlers import HANDLERS
from streaming.schemas import MAX_BYTES, InvalidMessage, decode


class ReasonForm(forms.Form):
    reason = forms.CharField(max_length=300, help_text="Kept with the dead letter.")


class PayloadForm(forms.Form):
    """Refuses what the consumer would bury at once; a handler may still reject it."""

    payload = forms.CharField(
        widget=forms.Textarea(attrs={"spellcheck": "false"}),
        max_length=MAX_BYTES,
        strip=False,
        help_text="Sent as UTF-8, as a new revision. The original stays as it came.",
    )

    def clean_payload(self) -> str:
        # A textarea sends line ends as CRLF.
        text: str = self.cleaned_data["payload"].replace("\r\n", "\n")
        try:
            decode(text.encode(), HANDLERS)
        except InvalidMessage as error:
            raise forms.ValidationError(
                f"Not sent, it would be dead at once. {error.reason}: {error}"
            ) from None
        return text
