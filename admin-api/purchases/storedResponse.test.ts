import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import type { PaymentState } from '../../core/domain/payment.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { bring, storedResponse, type WantedRow } from '../../test/helpers/rows.ts'
import { signingWallet } from '../../test/helpers/signIn.ts'

const wallet = signingWallet()

async function start(t: Test) {
  const f = await startAdmin(t)
  const { key, id: storeId } = await f.store()
  const body = { url: await f.seller(), title: 'Weather', price: '0.10' }
  const { data } = (await f.call('POST', '/api/v1/links', { key, body })).body
  const sold = async (state: PaymentState, more: Partial<WantedRow> = {}) => {
    const payer = wallet.address.toLowerCase()
    const row = { state, storeId, linkId: data.id, payer, atMs: f.clock.nowMs, ...more }
    const { purchaseId } = await bring(f.db.ledger, row)
    return `/api/purchases/${purchaseId}/response`
  }
  const offerAt = async (path: string) => {
    const { headers } = await f.call('GET', path)
    return JSON.parse(atob(String(headers['payment-required'])))
  }
  const read = (path: string, header: string) =>
    f.call('GET', path, { headers: { 'sign-in-with-x': header } })
  return {
    f,
    sold,
    offerAt,
    read,
    signedIn: async (path: string, by = wallet) => read(path, await by.sign(await offerAt(path))),
  }
}

for (const state of ['settled', 'delivered'] as const)
  t.test(`the wallet that has paid reads the response of a ${state} purchase again`, async (t) => {
    const { f, sold, signedIn } = await start(t)
    const path = await sold(state)
    const asked = await f.call('GET', path)
    t.match(asked, { status: 402, headers: { 'cache-control': 'no-store' }, body: { accepts: [] } })
    const found = await signedIn(path)
    t.equal(found.status, 200, found.text)
    t.match(JSON.parse(found.text), { data: { a: 1 }, _svc: { purchaseId: path.split('/')[3] } })
    t.equal(found.headers['cache-control'], 'private, no-store')
    t.match(JSON.parse(atob(String(found.headers['payment-response']))), { success: true })
    t.equal((await signedIn(path)).text, found.text, 'again and again')
  })

t.test('a sign-in is for one request, one purchase and its own wallet', async (t) => {
  const { sold, offerAt, read, signedIn } = await start(t)
  const [path, other] = [await sold('delivered'), await sold('delivered')]
  const header = await wallet.sign(await offerAt(path))
  t.match(await read(other, header), { status: 401, body: { error: { code: 'INVALID_SIGNATURE' } } })
  t.equal((await read(path, header)).status, 200)
  t.match(await read(path, header), { status: 401, body: { error: { code: 'NONCE_EXPIRED' } } })
  const theirs = await signedIn(path, signingWallet())
  t.match(theirs, { status: 403, body: { error: { code: 'FORBIDDEN' } } })
})

t.test('a page of any origin signs in, and reads the offer and the receipt', async (t) => {
  const { f, sold, offerAt } = await start(t)
  const path = await sold('delivered')
  const origin = 'https://shop.example'
  const asking = { origin, 'access-control-request-headers': 'sign-in-with-x' }
  const preflight = await f.call('OPTIONS', path, {
    headers: { ...asking, 'access-control-request-method': 'GET' },
  })
  t.match(preflight.headers, { 'access-control-allow-headers': /sign-in-with-x/i })
  const signed = { 'sign-in-with-x': await wallet.sign(await offerAt(path)) }
  for (const [status, more] of [
    [402, {}],
    [200, signed],
    [401, signed],
  ] as const) {
    const { headers, status: got } = await f.call('GET', path, { headers: { origin, ...more } })
    t.equal(got, status)
    t.equal(headers['access-control-allow-origin'], '*')
    const exposed = String(headers['access-control-expose-headers']).split(', ')
    for (const name of ['PAYMENT-REQUIRED', 'PAYMENT-RESPONSE', 'X-Purchase-Id', 'X-Review-Token'])
      t.ok(exposed.includes(name), `${status} ${name}`)
  }
})

t.test('an old offer, a changed signature and a header that cannot be read are refused', async (t) => {
  const { f, sold, offerAt, read } = await start(t)
  const path = await sold('delivered')
  const offer = await offerAt(path)
  const forged = await read(path, await wallet.sign(offer, { signature: '0x12' }))
  t.match(forged, { status: 401, body: { error: { code: 'INVALID_SIGNATURE' } } })
  t.match(await read(path, 'x'), { status: 400, body: { error: { code: 'invalid_sign_in' } } })
  f.clock.nowMs += 300_000
  const late = await read(path, await wallet.sign(offer))
  t.match(late, { status: 401, body: { error: { code: 'NONCE_EXPIRED', message: /five minutes/ } } })
})

t.test('what is not there is 404, and what is no longer there is 410', async (t) => {
  const { f, sold, signedIn } = await start(t)
  t.equal((await f.call('GET', `/api/purchases/${randomUUID()}/response`)).status, 404)
  t.equal((await f.call('GET', '/api/purchases/nonsense/response')).status, 404)
  for (const state of ['refund_due', 'refunded', 'reorged'] as const) {
    const gone = await signedIn(await sold(state))
    t.match(gone, { status: 410, body: { error: { code: 'RESPONSE_GONE' } } }, state)
  }
  const dropped = await signedIn(await sold('settled', { response: null }))
  t.match(dropped, { status: 410, body: { error: { message: /no longer stored/ } } })
})

t.test('a seller’s page stays confined, and a response of bytes is unchanged', async (t) => {
  const { sold, signedIn } = await start(t)
  const bytes = Buffer.from([0, 255, 1, 254])
  const response = {
    ...storedResponse,
    headers: ['Content-Type', 'image/png', 'Content-Security-Policy', 'sandbox'],
    body: bytes,
  }
  const found = await signedIn(await sold('delivered', { response }))
  t.match(found.headers, { 'content-type': 'image/png', 'content-security-policy': 'sandbox' })
  t.equal(Number(found.headers['content-length']), bytes.length)
})
