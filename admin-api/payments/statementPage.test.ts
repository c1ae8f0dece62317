import t, { type Test } from 'tap'
import { builtInAssets } from '../../core/domain/asset.ts'
import { feesAccountOf } from '../../core/domain/ledger.ts'
import type { FeeMonth } from '../../core/ports/store/fees.ts'
import { signInBrowser } from '../../test/helpers/admin-api/browser.ts'
import { sell } from '../../test/helpers/admin-api/sell.ts'
import { type Answer, startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { monthStatement } from './statementPage.ts'

const operator = `0x${'4'.repeat(40)}`

/** A seller at a browser, who owes 5 % of each sale. */
async function shop(t: Test) {
  const f = await startAdmin(t, { feesPayTo: { base: operator, solana: null } })
  f.clock.nowMs = Date.UTC(2026, 9, 15)
  const browser = await signInBrowser(f)
  const { id: storeId, username } = browser.response.body.data.store
  const look = async (month: string, headers?: Record<string, string>) => {
    // A session does not last from month to month.
    const { cookie } = await signInBrowser(f, browser.wallet)
    return f.call('GET', `/dashboard/fees/${month}`, { headers: headers ?? { cookie } })
  }
  return {
    ...{ f, browser, storeId, username, look },
    sale: (amount: string, of = storeId) =>
      sell(f.db, { storeId: of, linkId: 'one', amount, atMs: f.clock.nowMs }),
  }
}

/** What a page says, without its marks. */
const wordsOf = ({ text }: Answer) =>
  text
    .replace(/^.*<body>/s, '')
    .replaceAll('</tr>', '\n')
    .replace(/<[^>]*>/g, ' ')
    .replace(/[ \t]+/g, ' ')

t.test('a statement is the account of the month: before, fees, given back, paid, after', async (t) => {
  const { f, storeId, username, browser, look, sale } = await shop(t)
  await sale('20')
  f.clock.nowMs = Date.UTC(2026, 10, 3, 9, 30)
  await sale('10')
  await sale('1.50')
  await sale('0.60', feesAccountOf(storeId))
  const page = await look('2026-11')
  t.equal(page.status, 200)
  t.equal(page.headers['cache-control'], 'private, no-store')
  const words = wordsOf(page)
  t.match(words, /November 2026/)
  t.match(words, /So far: this month has not ended/)
  for (const whose of [username, browser.wallet.address, operator, 'Tollgate', 'https://pay.example'])
    t.match(words, whose)
  t.match(words, /USDC on Base Sepolia/)
  t.match(words, /Owed before November 2026 1\.000 USDC/)
  t.match(words, /Fees of 2 sales for 11\.50 USDC 0\.575 USDC/)
  t.match(words, /Fees returned for 0 refunds of 0\.00 USDC 0\.000 USDC/)
  t.match(words, /Paid -0\.600 USDC/)
  t.match(words, /Owed after 0\.975 USDC/)
  t.match(words, /Created by Tollgate on 3 Nov 2026, 09:30 UTC/)
  t.notMatch(page.text, /<script/, 'it works without any')

  const october = wordsOf(await look('2026-10'))
  t.match(october, /Owed before October 2026 0\.00 USDC/)
  t.match(october, /Owed after 1\.00 USDC/)
  t.notMatch(october, /So far/)
  t.match(wordsOf(await look('2026-09')), /no sales, refunds or payments/)
})

t.test(
  'what was sold in a month, given back and paid later moves what is owed from month to month',
  async (t) => {
    const { network, address, symbol, decimals } = builtInAssets.find(({ network }) =>
      network.startsWith('eip155:'),
    )!
    const month = (at: string, more: Partial<FeeMonth>): FeeMonth => ({
      ...{ month: at, network, asset: address, symbol, decimals, sales: 0, salesAtomic: 0n, feesAtomic: 0n },
      ...{ refunds: 0, refundedAtomic: 0n, returnedAtomic: 0n, paidAtomic: 0n, ...more },
    })
    const months = [
      month('2026-12', { paidAtomic: 90n, asset: address.toLowerCase() }),
      month('2026-11', { refunds: 1, refundedAtomic: 200n, returnedAtomic: 10n }),
      month('2026-10', { sales: 2, salesAtomic: 2_000n, feesAtomic: 100n }),
      month('2026-10', { sales: 1, salesAtomic: 40n, feesAtomic: 2n, decimals: decimals + 1 }),
    ]
    const of = (at: string) =>
      monthStatement(months, at).map((one) => [
        one.decimals - decimals,
        one.owedBeforeAtomic,
        one.owedAfterAtomic,
      ])
    t.strictSame(of('2026-09'), [])
    t.strictSame(of('2026-10'), [
      [0, 0n, 100n],
      [1, 0n, 2n],
    ])
    t.strictSame(of('2026-11'), [
      [0, 100n, 90n],
      [1, 2n, 2n],
    ])
    t.strictSame(
      of('2026-12'),
      [
        [0, 90n, 0n],
        [1, 2n, 2n],
      ],
      'an EVM address is the same in either case',
    )
    t.strictSame(of('2027-01'), [[1, 2n, 2n]])
  },
)

t.test('a currency on several networks has a total; a name is a text wherever it stands', async (t) => {
  const { f, storeId, look, sale } = await shop(t)
  await f.db.stores.update(storeId, { displayName: '<script>alert(1)</script>' }, f.clock.nowMs)
  await sale('20')
  const months = await f.db.fees.months(storeId)
  // As a chain whose USDC counts in 9 decimals would book it.
  const other = {
    ...months[0]!,
    network: 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1',
    asset: 'x',
    decimals: 9,
  } as const
  f.db.fees.months = async () => [
    ...months,
    { ...other, feesAtomic: 500_000_000n, salesAtomic: 10_000_000_000n },
  ]
  const page = await look('2026-10')
  t.match(
    wordsOf(page),
    /USDC on all networks.*Fees of 2 sales for 30\.00 USDC 1\.50 USDC.*Owed after 1\.50 USDC/s,
  )
  t.notMatch(page.text, /<script/)
})

t.test('a month that is none, or has not begun, has a page that says so', async (t) => {
  const { look } = await shop(t)
  for (const bad of ['2026-13', '2026-1', 'last', '2026-10-01', '%3Cb%3E'])
    t.match(await look(bad), { status: 400, text: /<h1>This is not a month/ }, bad)
  t.match(await look('2026-11'), { status: 404, text: /<h1>November 2026 has not begun/ })
  t.match(await look('2026-10'), { status: 200 })
})

t.test('whoever is not signed in gets the frame of the dashboard, and nothing of the store', async (t) => {
  const { f, look, sale, username, browser } = await shop(t)
  await sale('20')
  const { cookie } = browser
  const wrong = cookie.replace(/=.*/, `=${'A'.repeat(43)}`)
  for (const headers of [{}, { cookie: wrong }, { cookie, 'sec-fetch-site': 'cross-site' }]) {
    const page = await look('2026-10', headers as Record<string, string>)
    t.equal(page.status, 200)
    t.match(page.text, /data-island="dashboard"|dashboard/)
    t.notMatch(page.text, username)
    t.notMatch(page.text, 'Fee statement')
  }
  const other = await f.store()
  const theirs = await look('2026-10', { authorization: `Bearer ${other.key}`, cookie })
  t.match(
    theirs,
    { status: 200, text: /no sales, refunds or payments/ },
    'who sends a key is judged by it alone',
  )
  t.equal((await look('2026-10', { authorization: 'Bearer sk_no', cookie })).status, 401)
})
