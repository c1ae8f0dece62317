import { execFileSync } from 'node:child_process'
import t from 'tap'
import { type ChallengeMaking, createChallenges, RecentChallenges } from './challenge.ts'
import type { Offer } from './offers.ts'

const offers = [
  {
    terms: {
      scheme: 'exact',
      network: 'eip155:84532',
      amount: '10000',
      asset: '0xa',
      payTo: '0xb',
      maxTimeoutSeconds: 300,
      extra: { name: 'USDC', version: '2', decimals: 6 },
    },
    asset: { symbol: 'USDC' },
  },
] as unknown as readonly Offer[]

interface Sold {
  readonly price: string
  readonly title: string
}

function makingOf(legacyBody = false): ChallengeMaking<Sold> {
  return {
    describe: ({ title }) => ({
      resource: { url: `https://x.example/${title}`, description: title, mimeType: 'application/json' },
      extensions: title === 'plain' ? undefined : { bazaar: { info: { title }, schema: {} } },
    }),
    legacyBody,
    acceptV1: true,
    recent: new RecentChallenges(),
  } as ChallengeMaking<Sold>
}

const headerOf = (headers: readonly string[], name: string) => headers[headers.indexOf(name) + 1]!
const bytesOf = (body: unknown) => Buffer.from(body as string, 'latin1')

t.test('however often it is asked, and whoever is asked between, a 402 has the same bytes', async (t) => {
  const making = makingOf()
  for (const title of ['plain', 'Wetter', 'Zürich ✓ "x"']) {
    const challenges = createChallenges({ price: '0.01', title }, offers, making)
    for (const version of ['v2', 'v1'] as const) {
      const first = challenges[version]
      t.strictSame(challenges[version], first)
      t.equal(challenges[version], challenges[version], 'kept, when it is asked again')
      for (let i = 0; i < 3_000; i++)
        void createChallenges({ price: '1', title: `t${i % 1_500}` }, offers, making).v2
      t.strictSame(challenges[version], first, 'and after very many others')
    }
    const { headers, body } = challenges.v2
    t.equal(bytesOf(body).length, Number(headerOf(headers, 'Content-Length')))
    t.equal(Buffer.from(headerOf(headers, 'PAYMENT-REQUIRED'), 'base64').compare(bytesOf(body)), 0)
    const offer = JSON.parse(bytesOf(body).toString())
    t.strictSame(offer.accepts, [offers[0]!.terms])
    t.equal(offer.resource.description, title)
    t.equal(offer.extensions?.bazaar.info.title, title === 'plain' ? undefined : title)
    const message = 'The payer has ✓ too little.'
    const envelope = {
      success: false,
      error: {
        code: 'invalid_payment',
        message,
        requestId: 'r',
        reason: 'insufficient_funds',
        retryable: false,
      },
    } as const
    const failed = challenges.refused(2, envelope, '')!
    const result = JSON.parse(bytesOf(failed.body).toString())
    t.strictSame(result, { ...offer, ...envelope })
    const fresh = Buffer.from(headerOf(failed.headers, 'PAYMENT-REQUIRED'), 'base64').toString()
    t.strictSame(JSON.parse(fresh), { ...offer, error: 'insufficient_funds' })
    t.equal(bytesOf(failed.body).length, Number(headerOf(failed.headers, 'Content-Length')))
    t.strictSame(
      [challenges.v2.status, challenges.v2.headers, challenges.v2.body],
      [402, headers, body],
      "a refusal of one payment is no other call's",
    )
  }
})

t.test('the older body changes nothing of the header', async (t) => {
  const sold = { price: '0.01', title: 'a' }
  const [plain, legacy] = [false, true].map((old) => createChallenges(sold, offers, makingOf(old)).v2)
  t.equal(headerOf(legacy!.headers, 'PAYMENT-REQUIRED'), headerOf(plain!.headers, 'PAYMENT-REQUIRED'))
  t.match(JSON.parse(bytesOf(legacy!.body).toString()), { payment: { amount: '0.01', recipient: '0xb' } })
})

t.test('what only one link says of itself is kept once, and not as base64 as well', (t) => {
  const program = `
    import { RecentChallenges, createChallenges } from './challenge.ts'
    const [recent, kept, own] = [new RecentChallenges(), [], 2_500]
    const describe = ({ i }) => ({ resource: { url: 'https://a.example/' + i }, extensions: { bazaar: i + 'x'.repeat(own) } })
    const making = { legacyBody: false, acceptV1: true, recent, describe }
    const offer = { terms: { amount: '1' } }
    globalThis.gc()
    const before = process.memoryUsage().heapUsed
    for (let i = 0; i < 10_000; i++) {
      kept.push(createChallenges({ price: '1', i }, [offer], making))
      kept[i].v2
    }
    globalThis.gc()
    console.log((process.memoryUsage().heapUsed - before) / kept.length / own)`
  const output = execFileSync(process.execPath, ['--expose-gc', '--input-type=module', '-e', program], {
    cwd: import.meta.dirname,
    encoding: 'utf8',
  })
  // The cached responses of the last thousand are kept beside it.
  t.ok(Number(output) < 1.8, `it takes ${output.trim()} times what it says`)
  t.end()
})
