"""Publishers who edit their posts, and those who try to edit the posts of others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from fanfold import contract
from fanfold.ids import ref_id_for
from proof.simulation.actors.publishers import AGAIN_SECONDS, MAX_POSTS
from proof.simulation.clients.requests import (
    by_http,
    by_queue,
    edit,
    edit_by_queue,
    read,
    retract,
    retract_by_queue,
    send,
    show,
)
from proof.simulation.world.world import World

# The share of worlds in which posts are edited.
EDITED = 0.3
# The share of edits to a body that the post had before.
SAME = 0.25
# The share of edits that race with another edit or a retraction.
RACES = 0.3
# The share of edited posts whose key is used again.
AGAIN = 0.3


def start(world: World, publishers: list[str]) -> None:
    """Let the publishers of some worlds edit what they post."""
    random = Random(f"{world.seed} edits")
    if random.random() >= EDITED:
        return
    for publisher in publishers:
        own = Random(f"{world.seed} edits of {publisher}")
        world.start_client(f"{publisher} edits", partial(_edit, world, own, publisher))
        if random.random() < 0.3:
            act = partial(_edit_before_publishing, world, own, publisher)
            world.start_client(f"{publisher} early", act)
    if random.random() < 0.3:
        world.start_client("meddler", partial(_meddle, world, random, publishers))


def _edit(world: World, random: Random, publisher: str) -> None:
    for number in range(random.randint(1, 5)):
        world.scheduler.sleep(random.uniform(0, 30))
        published = world.history.of("publish", "send", user=publisher)
        if not published:
            continue
        post = random.choice(published)
        ref_id = post.subject
        known = [
            post.content,
            *(each.content for each in world.history.edits.of(ref_id, publisher)),
        ]
        title = f"{ref_id} {number}"
        content = random.choice(known) if random.random() < SAME else {"title": title}
        reader = _reads(world, random, publisher)
        if random.random() < RACES:
            acts: list[Callable[[], object]] = [
                partial(edit, world, publisher, ref_id, {"title": f"{title} too"})
            ]
            acts.append(partial(edit_by_queue, world, publisher, ref_id, {"title": f"{title} 3"}))
            if random.random() < 0.2:
                acts.append(partial(retract, world, publisher, ref_id))
            for act in random.sample(acts, random.randint(1, len(acts))):
                world.start_client(f"{publisher} again", act)
        random.choice((edit, edit, edit_by_queue))(world, publisher, ref_id, content)
        show(world, reader or publisher, ref_id)
        if post.kind == "publish" and random.random() < AGAIN:
            _publish_again(world, publisher, ref_id, random.choice((post.content, content)))
        if reader:
            again = partial(_read_later, world, random, reader, ref_id)
            world.start_client(f"{reader} again", again)


def _publish_again(world: World, publisher: str, ref_id: str, content: Any) -> None:
    """Repeat a publish, or use its key with the current body of its post."""
    names = (f"{publisher}-{number}" for number in range(MAX_POSTS))
    for key in names:
        if ref_id_for(publisher, key) == ref_id:
            by_http(world, publisher, key, content=content)


def _reads(world: World, random: Random, publisher: str) -> str:
    """Perhaps let a user read just before an edit, so that a container caches the post."""
    users = [user for user, followed in world.history.relations if followed == publisher]
    if not users or random.random() < 0.5:
        return ""
    reader = random.choice(users)
    read(world, reader, limit=100)
    return reader


def _read_later(world: World, random: Random, reader: str, ref_id: str) -> None:
    world.scheduler.sleep(random.uniform(*AGAIN_SECONDS))
    read(world, reader, limit=100)
    show(world, reader, ref_id)


def _edit_before_publishing(world: World, random: Random, publisher: str) -> None:
    """Send edits by the queue, which may deliver them before their post or its tombstone."""
    ref_id = f"{publisher}-early"
    world.scheduler.sleep(random.uniform(0, 30))
    for number in range(random.randint(1, 2)):
        edit_by_queue(world, publisher, ref_id, {"title": f"{ref_id} {number}"})
        world.scheduler.sleep(random.choice((0.0, random.uniform(0, 10))))
    if random.random() < 0.15:
        retract_by_queue(world, publisher, ref_id)
    by_queue(world, publisher, ref_id)
    world.scheduler.sleep(random.choice((0.0, random.uniform(0, 10))))
    if random.random() < 0.15:
        retract_by_queue(world, publisher, ref_id)


def _meddle(world: World, random: Random, publishers: list[str]) -> None:
    """Try to edit posts of others, published or not, by HTTP or queue."""
    for number in range(random.randint(1, 4)):
        world.scheduler.sleep(random.uniform(0, 40))
        publisher = random.choice(publishers)
        name = f"{publisher}-{random.randrange(MAX_POSTS)}"
        ref_id = random.choice((name, ref_id_for(publisher, name)))
        content = {"title": f"stolen {number}"}
        if random.random() < 0.7:
            edit(world, "meddler", ref_id, content)
            continue
        ids = f'"publisher_id":"meddler","ref_id":"{ref_id}"'
        body = f'{{"version":1,"type":"{contract.POST_UPDATED}",{ids},"body":{{"n":{number}}}}}'
        world.noise.add(body)
        send(world, body)
