import t from 'tap'
import { keptLook } from './keptLook.ts'

t.test('who asks at once, or soon after, shares one look', async (t) => {
  let looks = 0
  const look = keptLook(
    async () => ++looks,
    () => 5,
    { ageMs: 60_000 },
  )
  const found = await Promise.all([look(), look(), look()])
  t.strictSame(found[0], { value: 1, atMs: 5, fault: undefined })
  t.strictSame(await look(), found[0])
  t.equal(looks, 1)
})

t.test('what never answers keeps nobody, is asked once, and the last answer stays', async (t) => {
  const answers = [Promise.resolve('well'), new Promise<string>(() => undefined)]
  let looks = 0
  const look = keptLook(
    () => answers[looks++]!,
    () => 5,
    { ageMs: 0, patienceMs: 20 },
  )
  t.match(await look(), { value: 'well', fault: undefined })
  for (let i = 0; i < 3; i++) t.match(await look(), { value: 'well', atMs: 5, fault: /No answer/ })
  t.equal(looks, 2)
})

t.test('why it failed is told, until it goes well again', async (t) => {
  let isAway = true
  const read = async () => {
    if (isAway) throw new Error('away')
    return 'back'
  }
  const look = keptLook(read, () => 5, { ageMs: 0 })
  t.strictSame(await look(), { value: undefined, atMs: undefined, fault: 'away' })
  isAway = false
  t.match(await look(), { value: 'back', fault: undefined })
})
