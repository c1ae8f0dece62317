import t from 'tap'
import { createLinkBody } from '../links/linkBodies.ts'
import { createValidators } from './validation.ts'

const checkOf = (schema: object) =>
  createValidators()({ schema, httpPart: 'body', method: '', url: '' }) as (value: unknown) => {
    error?: Error
  }

t.test('a list of very many entries is not compared each with each before it is refused', async (t) => {
  const check = checkOf(createLinkBody)
  let polls = 0
  const entry = () =>
    new Proxy(
      {},
      {
        get(target, name) {
          polls++
          return Reflect.get(target, name)
        },
      },
    )
  for (const field of ['methods', 'tags']) {
    const body = { url: 'https://a.example', title: 'A', [field]: Array.from({ length: 1_000 }, entry) }
    t.match(check(body).error, { code: 'VALIDATION_ERROR' })
  }
  t.ok(polls < 20_000, `${polls} looks at 2,000 entries`)
})

t.test('all that is wrong with a body is told, and of a very large one the first', async (t) => {
  const check = checkOf(createLinkBody)
  const detailsOf = (body: object) =>
    (check(body).error as unknown as { details: { path: string }[] }).details
  const few = detailsOf({ url: 1, title: 'A', tags: ['Ä', 'Ö'], price: 'much' })
  t.strictSame(few.map(({ path }) => path).sort(), ['price', 'tags[0]', 'tags[1]', 'url'])
  t.match(detailsOf({ url: 'u', title: 'A', tags: Array.from({ length: 9_000 }, () => 'Ä') }), { length: 1 })
  t.match(
    detailsOf({
      ...{ url: 'u', title: 'A' },
      upstreamHeaders: Object.fromEntries(Array.from({ length: 9_000 }, (_, i) => [`k${i}`, 1])),
    }),
    { length: 1 },
  )
})

t.test('a schema by which they would be stops the start', async (t) => {
  const listOf = (items: object) => ({
    type: 'object',
    properties: { a: { type: 'array', uniqueItems: true, items } },
  })
  t.throws(() => checkOf(listOf({ enum: ['x'] })), /entries of one plain type/)
  t.throws(() => checkOf(listOf({ type: ['string', 'null'] })), /entries of one plain type/)
  t.doesNotThrow(() => checkOf(listOf({ type: 'string', enum: ['x'] })))
})
