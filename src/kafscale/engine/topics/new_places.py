"""Places for topics to move to.

Next door: who wants one (administration.py), what happens then (moves.py).
"""

from kafscale.engine.topics.registry import Topics
from kafscale.engine.topics.topic import Topic
from kafscale.model.clock import Dice
from kafscale.model.topics import Layout, Move


async def new_place(topics: Topics, topic: Topic, layout: Layout, logs: int, dice: Dice) -> Move:
    """Somewhere for a topic to move to, where nobody has ever written (rule 22)."""
    move_id = dice.token(8).hex()
    shared = [await topics.allot(topic.partitions)] if layout == "shared" else []
    folder = topics.new_folder(topic.name, move_id)
    return Move(move_id=move_id, layout=layout, folder=folder, logs=logs, shared=shared)
