import t from 'tap'
import { cachedRead } from './cachedRead.ts'

t.test('who asks at once, or soon after, shares one look', async (t) => {
  let polls = 0
  const look = cachedRead(
    async () => ++polls,
    () => 5,
    { ageMs: 60_000 },
  )
  const found = await Promise.all([look(), look(), look()])
  t.strictSame(found[0], { value: 1, atMs: 5, fault: undefined })
  t.strictSame(await look(), found[0])
  t.equal(polls, 1)
})

t.test('what never answers keeps nobody, is asked once, and the last answer stays', async (t) => {
  const responses = [Promise.resolve('well'), new Promise<string>(() => undefined)]
  let polls = 0
  const look = cachedRead(
    () => responses[polls++]!,
    () => 5,
    { ageMs: 0, patienceMs: 20 },
  )
  t.match(await look(), { value: 'well', fault: undefined })
  for (let i = 0; i < 3; i++) t.match(await look(), { value: 'well', atMs: 5, fault: /No response/ })
  t.equal(polls, 2)
})

t.test('why it failed is told, until it goes well again', async (t) => {
  let isUnavailable = true
  const read = async () => {
    if (isUnavailable) throw new Error('away')
    return 'back'
  }
  const look = cachedRead(read, () => 5, { ageMs: 0 })
  t.strictSame(await look(), { value: undefined, atMs: undefined, fault: 'away' })
  isUnavailable = false
  t.match(await look(), { value: 'back', fault: undefined })
})
