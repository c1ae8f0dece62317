import t from 'tap'
import { buySponsored, buyTwenty } from './helpers/metered.ts'

t.test('20 calls at once are each charged what they have used, 40 ms from the node', (t) =>
  buyTwenty(t, {}, 40),
)

t.test('20 calls at once are each charged what they have used, with a block every 2 s', (t) =>
  buyTwenty(t, { blockTimeMs: 2_000 }, 0),
)

t.test('the first calls of 20 buyers at once need no allowance, 40 ms from the node', (t) =>
  buySponsored(t, {}, 40),
)

t.test('the first calls of 20 buyers at once need no allowance, with a block every 2 s', (t) =>
  buySponsored(t, { blockTimeMs: 2_000 }, 0),
)
