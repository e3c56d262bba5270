"""What looks after tables by itself: initiator, workers, cleaner, housekeeper; one ``step()`` each."""

from hiveacid.services.services import Services, Turn

__all__ = ["Services", "Turn"]
