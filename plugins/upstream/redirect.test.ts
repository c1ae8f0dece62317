import t from 'tap'
import { startGateway } from '../../test/helpers/gateway.ts'
import { startSeller } from '../../test/helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment } from '../../test/helpers/settler.ts'

const seller = await startSeller(t, 'hello')
const settler = createScriptedSettler()
const gateway = await startGateway(t, { settlers: [settler] })
const target = `${seller.url}/download?file=secret-1`
let count = 0
const addLink = (price: string, more: object = {}) =>
  gateway.addLink({ slug: `s${++count}`, url: target, price, linkType: 'standard', ...more })
const call = (url: string, headers: Record<string, string> = {}, init: RequestInit = {}) =>
  fetch(url, { redirect: 'manual', ...init, headers })
const paying = () => ({ 'payment-signature': scriptedPayment(`n${++count}`, '100000') })
const receiptOf = ({ headers }: Response) =>
  JSON.parse(Buffer.from(headers.get('payment-response')!, 'base64').toString())

for (const settle of ['after', 'before'] as const) {
  t.test(`a paid standard link leads to its url once it is charged (${settle})`, async (t) => {
    const link = await addLink('0.10', { settle })
    const unpaid = await call(link.url)
    t.equal(unpaid.status, 402)
    const shown = [...unpaid.headers].flat().join() + (await unpaid.text())
    const offer = Buffer.from(unpaid.headers.get('payment-required')!, 'base64').toString()
    t.notMatch(shown + offer, /secret-1/, 'nobody sees the address before')

    const headers = paying()
    const paid = await call(`${link.url}?session=1`, headers, { method: 'POST', body: 'x' })
    t.equal(paid.status, 303)
    t.equal(paid.headers.get('location'), target, 'nothing of the call stands in the address')
    t.equal(await paid.text(), '')
    t.ok(paid.headers.get('x-review-token'))
    t.match(paid.headers.get('cache-control'), /private, no-store/)
    t.match(receiptOf(paid), { success: true, transaction: /^0x/ })
    const id = paid.headers.get('x-purchase-id')!
    t.match(await gateway.store.purchases.find(id), { linkId: link.id, status: /settled|delivered/ })
    const again = await call(`${link.url}?session=1`, headers, { method: 'POST', body: 'x' })
    t.strictSame([again.status, again.headers.get('x-purchase-id')], [303, id], 'a repeat gets it again')
    t.equal(seller.requests.length, 0, 'the gateway asks nobody')
  })

  t.test(`a program that wants JSON gets the address in it (${settle})`, async (t) => {
    const wrapped = await addLink('0.10', { settle })
    const paid = await call(wrapped.url, { ...paying(), accept: 'application/json, text/plain, */*' })
    t.equal(paid.status, 200)
    t.equal(paid.headers.get('location'), null)
    t.match(await paid.json(), { data: { url: target }, _svc: { purchaseId: String, reviewToken: String } })
    const raw = await addLink('0.10', { settle, responseMode: 'raw' })
    const bare = await call(raw.url, { ...paying(), accept: 'application/json' })
    t.strictSame(await bare.json(), { url: target })
    t.ok(bare.headers.get('x-purchase-id'))
  })
}

t.test('a free standard link leads there at once, by any method', async (t) => {
  const link = await addLink('0')
  for (const method of ['GET', 'HEAD', 'POST', 'DELETE']) {
    const response = await call(link.url, {}, { method })
    t.strictSame([response.status, response.headers.get('location')], [303, target], method)
  }
  const json = await call(link.url, { accept: 'application/json' })
  t.strictSame([json.status, await json.json()], [200, { data: { url: target } }])
  for (const accept of ['*/*', 'text/html,application/xhtml+xml,*/*;q=0.8', 'application/json;q=0, */*']) {
    t.equal((await call(link.url, { accept })).status, 303, accept)
  }
  t.equal(seller.requests.length, 0)
})

t.test('a script in a browser gets the address, which it could not follow with its payment', async (t) => {
  const script = { 'sec-fetch-dest': 'empty', 'sec-fetch-mode': 'cors', origin: 'https://shop.test' }
  const paid = await call((await addLink('0.10')).url, { ...paying(), ...script })
  t.match(await paid.json(), { data: { url: target }, _svc: { purchaseId: String } })
  t.match(receiptOf(paid), { success: true })
  const opened = { 'sec-fetch-dest': 'document', 'sec-fetch-mode': 'navigate' }
  t.equal((await call((await addLink('0')).url, opened)).status, 303)
})

t.test('below a standard link there is nothing, and nothing is charged for it', async (t) => {
  const before = settler.transfers.length
  const link = await addLink('0.10')
  const response = await call(`${link.url}/below`, paying())
  t.strictSame(
    [response.status, ((await response.json()) as { error: { code: string } }).error.code],
    [404, 'link_not_found'],
  )
  t.equal(settler.transfers.length, before)
})

t.test('a browser that opens a paid standard link is led to its page, a program is not', async (t) => {
  const link = await addLink('0.10')
  const { pathname } = new URL(link.url)
  const opened = await call(link.url, { 'sec-fetch-dest': 'document', accept: 'text/html' })
  t.equal(opened.status, 303)
  t.equal(opened.headers.get('location'), pathname.replace('/api/link', ''))
  t.match(opened.headers.get('cache-control'), 'no-store')
  for (const more of [{}, { 'sec-fetch-dest': 'empty' }, { accept: 'text/html' }])
    t.equal((await call(link.url, more)).status, 402)
  t.equal(
    (await call(link.url, { ...paying(), 'sec-fetch-dest': 'document' })).headers.get('location'),
    target,
  )
})
