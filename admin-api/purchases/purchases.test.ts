import t, { type Test } from 'tap'
import { sell } from '../../test/helpers/admin-api/sell.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

const DAY_MS = 24 * 60 * 60_000
const unknownId = '00000000-0000-4000-8000-000000000000'

async function shop(t: Test) {
  const f = await startAdmin(t)
  const store = await f.store()
  const url = await f.seller()
  const link = async (title: string) =>
    (await f.call('POST', '/api/v1/links', { key: store.key, body: { url, title } })).body.data.id as string
  const [one, two] = [await link('One'), await link('Two')]
  const sale = (linkId: string, amount: string, ago = 0, buyer?: string) =>
    sell(f.db, { storeId: store.id, linkId, amount, atMs: f.clock.nowMs - ago, ...(buyer && { buyer }) })
  return { f, ...store, one, two, sale }
}

t.test('a purchase is shown with exactly its fields, amounts as decimal strings', async (t) => {
  const { f, key, one, sale } = await shop(t)
  const id = await sale(one, '0.1')
  const { status, body } = await f.call('GET', `/api/v1/purchases/${id}`, { key })
  t.equal(status, 200)
  const { txHash } = body.data
  t.same(body.data, {
    id,
    linkId: one,
    sessionId: null,
    status: 'settled',
    amount: '0.10',
    authorizedAmount: '0.10',
    fee: '0.005',
    currency: 'USDC',
    price: '0.1',
    chain: 'base',
    network: 'eip155:84532',
    asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
    buyerWallet: '0x00000000000000000000000000000000000000b1',
    txHash,
    explorerUrl: `https://sepolia.basescan.org/tx/${txHash}`,
    createdAt: new Date(f.clock.nowMs).toISOString(),
    linkTitle: 'One',
  })
  await f.call('DELETE', `/api/v1/links/${one}`, { key })
  t.match((await f.call('GET', '/api/v1/purchases', { key })).body.data.purchases, [{ id, linkTitle: 'One' }])
})

t.test('pages hang together: every purchase once, newest first, also when more come meanwhile', async (t) => {
  const { f, key, one, two, sale } = await shop(t)
  const ids: string[] = []
  for (let i = 0; i < 7; i++) ids.unshift(await sale(i % 2 === 0 ? one : two, '1', 10_000 - i))
  const seen: string[] = []
  let cursor = ''
  do {
    const { status, body } = await f.call('GET', `/api/v1/purchases?limit=3${cursor}`, { key })
    t.equal(status, 200)
    t.same(Object.keys(body.data), ['purchases', 'nextCursor'])
    seen.push(...body.data.purchases.map((p: { id: string }) => p.id))
    if (seen.length === 3) await sale(one, '9')
    cursor = body.data.nextCursor === null ? '' : `&cursor=${encodeURIComponent(body.data.nextCursor)}`
  } while (cursor !== '')
  t.same(seen, ids)
  const ofTwo = await f.call('GET', `/api/v1/purchases?linkId=${two}`, { key })
  t.equal(ofTwo.body.data.purchases.length, 3)
  t.equal(ofTwo.body.data.nextCursor, null)
})

t.test('bad parameters are refused by name, and unknown ids are 404', async (t) => {
  const { f, key, sale, one } = await shop(t)
  const other = await f.store()
  const id = await sale(one, '1')
  for (const query of [
    'limit=0',
    'limit=101',
    'limit=x',
    'limit=',
    'limit=1&limit=2',
    'cursor=%00',
    'cursor=🦆',
    'cursor=',
    'linkId=abc',
  ]) {
    const { status, body } = await f.call('GET', `/api/v1/purchases?${query}`, { key })
    t.equal(status, 400, query)
    t.equal(body.error.code, 'VALIDATION_ERROR')
  }
  t.equal(
    (await f.call('GET', `/api/v1/purchases?linkId=${unknownId}`, { key })).body.error.code,
    'LINK_NOT_FOUND',
  )
  t.equal((await f.call('GET', `/api/v1/purchases?linkId=${one}`, { key: other.key })).status, 404)
  for (const name of [unknownId, 'abc', 'x'.repeat(200)]) {
    const { code, message } = (await f.call('GET', `/api/v1/purchases/${name}`, { key })).body.error
    t.strictSame([code, message], ['NOT_FOUND', 'Your store has no purchase with this id.'])
  }
  t.equal((await f.call('GET', `/api/v1/purchases/${id}`, { key: other.key })).status, 404)
  t.same((await f.call('GET', '/api/v1/purchases', { key: other.key })).body.data.purchases, [])
})

t.test('with Accept: text/csv the same page is a table, its successor in the Link header', async (t) => {
  const { f, key, one, sale } = await shop(t)
  for (let i = 0; i < 3; i++) await sale(one, '1', i, '=HYPERLINK("http://x"),0xb1')
  const headers = { accept: 'text/csv' }
  const first = await f.call('GET', '/api/v1/purchases?limit=2', { key, headers })
  t.match(first.headers['content-type'], /^text\/csv/)
  t.match(first.headers['content-disposition'], /attachment/)
  t.match(first.headers['vary'], /Accept/)
  const lines = first.text.trimEnd().split('\r\n')
  t.equal(lines.length, 3)
  t.match(lines[0], /^id,createdAt,linkId,status,amount,fee,currency,/)
  t.ok(lines[1]!.includes(`,"'=HYPERLINK(""http://x""),0xb1",`), 'no cell is a formula')
  const next = /<https:\/\/pay\.example(\/api\/v1\/purchases\?[^>]+)>; rel="next"/.exec(
    String(first.headers['link']),
  )
  const second = await f.call('GET', next![1]!, { key, headers })
  t.equal(second.text.trimEnd().split('\r\n').length, 2)
  t.equal(second.headers['link'], undefined)
  for (const accept of ['*/*', 'application/json', 'application/json, text/csv', 'text/html']) {
    t.ok((await f.call('GET', '/api/v1/purchases', { key, headers: { accept } })).body)
  }
})

t.test('figures add up per period and link, revenue with 18 places', async (t) => {
  const { f, key, one, two, sale } = await shop(t)
  await sale(one, '0.1', 0, '0xa')
  await sale(one, '0.2', DAY_MS, '0xa')
  await sale(two, '1', 8 * DAY_MS, '0xb')
  await sale(two, '10', 40 * DAY_MS, '0xc')
  await sale(two, '100', 100 * DAY_MS, '0xd')
  const hour = Math.floor(f.clock.nowMs / 3_600_000)
  await f.db.stats.addTraffic([{ linkId: one, hour, views: 5, challenges: 9, calls: 0, failedCalls: 0 }])
  const stats = async (query: string) => (await f.call('GET', `/api/v1/stats${query}`, { key })).body
  const zeros = '0'.repeat(17)
  t.same(await stats(''), {
    success: true,
    data: { period: '30d', views: 5, buyers: 2, revenue: `1.3${zeros}` },
  })
  t.same((await stats('?period=7d')).data, { period: '7d', views: 5, buyers: 1, revenue: `0.3${zeros}` })
  t.same((await stats('?period=90d')).data, { period: '90d', views: 5, buyers: 3, revenue: `11.3${zeros}` })
  t.same((await stats('?period=all')).data, { period: 'all', views: 5, buyers: 4, revenue: `111.3${zeros}` })
  t.same((await stats(`?period=all&linkId=${two}`)).data, {
    period: 'all',
    views: 0,
    buyers: 3,
    revenue: `111.0${zeros}`,
  })
  t.match((await stats('?period=1d')).error, { code: 'VALIDATION_ERROR', message: /7d/ })
  t.equal((await stats('?linkId=abc')).error.code, 'VALIDATION_ERROR')
  t.equal((await stats(`?linkId=${unknownId}`)).error.code, 'LINK_NOT_FOUND')
  const empty = await f.store()
  t.same((await f.call('GET', '/api/v1/stats', { key: empty.key })).body.data, {
    period: '30d',
    views: 0,
    buyers: 0,
    revenue: `0.0${zeros}`,
  })
})
