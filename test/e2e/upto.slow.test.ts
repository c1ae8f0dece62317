import t from 'tap'
import { buyTwenty } from './helpers/metered.ts'

t.test('20 calls at once are each charged what they have used, 40 ms from the node', (t) =>
  buyTwenty(t, {}, 40),
)

t.test('20 calls at once are each charged what they have used, with a block every 2 s', (t) =>
  buyTwenty(t, { blockTimeMs: 2_000 }, 0),
)
