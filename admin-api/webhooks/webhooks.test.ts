import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Webhook } from 'standardwebhooks'
import type { Test } from 'tap'
import t from 'tap'
import { builtInAssets } from '../../core/domain/asset.ts'
import type { PaymentRecord } from '../../core/domain/payment.ts'
import { checksumAddress } from '../../core/evm/hex.ts'
import { loseRefund, noteRefundedTwice, payBack } from '../../core/payments/reconciliation.ts'
import type { PaymentChange } from '../../core/ports/store/ledger.ts'
import { sell } from '../../test/helpers/admin-api/sell.ts'
import { type Fixture, startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { nextTryInMs, TRIES_AT_MS } from './deliverWebhooks.ts'

interface Received {
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** A receiver on a real socket, which responds with 200 until the test sets another response. */
async function receiver(
  t: Test,
  respond: (response: ServerResponse, nth: number) => void = (r) => r.end('thanks'),
) {
  const received: Received[] = []
  const waiting: { readonly count: number; resolve(): void }[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      received.push({ headers: request.headers, body })
      respond(response, received.length)
      for (const one of waiting) if (received.length >= one.count) one.resolve()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  const got = (count: number) =>
    received.length >= count
      ? Promise.resolve()
      : new Promise<void>((resolve) => void waiting.push({ count, resolve }))
  return { url, received, got }
}

/** An admin API whose jobs run. */
async function start(t: Test) {
  const f = await startAdmin(t)
  await f.admin.listen({ host: '127.0.0.1', port: 0 })
  return f
}

async function hook(f: Fixture, key: string, url: string, more: object = {}) {
  const made = await f.call('POST', '/api/v1/webhooks', { key, body: { url, ...more } })
  if (made.status !== 201) throw new Error(made.text)
  return made.body.data as { id: string; secret: string }
}

/** What a webhook's log contains about its newest delivery, once it is as expected. */
async function delivery(f: Fixture, key: string, id: string, status: string) {
  for (;;) {
    const list = await f.call('GET', `/api/v1/webhooks/${id}/deliveries`, { key })
    const [newest] = list.body.data.deliveries
    if (newest?.status === status) {
      const one = await f.call('GET', `/api/v1/webhooks/${id}/deliveries/${newest.id}`, { key })
      return one.body.data
    }
    await new Promise((resolve) => setImmediate(resolve))
  }
}

const verified = (secret: string, { headers, body }: Received) =>
  // The library's own clock judges the timestamp, while the fixture's clock is set to June.
  new Webhook(secret).verify(body, headers as Record<string, string>) as Record<string, unknown>

t.test('a sale is told with the body of the document, and the official library verifies it', async (t) => {
  const f = await start(t)
  f.clock.nowMs = Date.now()
  const { key, id: storeId } = await f.store()
  const to = await receiver(t)
  const { secret, id } = await hook(f, key, to.url)
  t.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
  const linkId = (await link(f, key)).id
  const purchaseId = await sell(f.db, { storeId, linkId, amount: '0.25', atMs: f.clock.nowMs })
  await to.got(1)
  const body = verified(secret, to.received[0]!)
  t.match(body, {
    ...{ event: 'purchase.confirmed', type: 'purchase.confirmed', purchaseId, amount: '0.25' },
    ...{ txHash: /^0x/, timestamp: new Date(f.clock.nowMs).toISOString() },
    data: { purchaseId, linkId, currency: 'USDC', amount: '0.25', buyerWallet: /^0x/ },
  })
  t.throws(() => verified(`whsec_${Buffer.alloc(32).toString('base64')}`, to.received[0]!))
  const log = await delivery(f, key, id, 'delivered')
  t.match(log, { webhookId: to.received[0]!.headers['webhook-id'], body: to.received[0]!.body, tries: 1 })
  t.match(log.attempts, [{ status: 200, error: null, response: 'thanks' }])
})

t.test("a link's own webhookUrl hears of its sales, and its secret is shown once", async (t) => {
  const f = await start(t)
  f.clock.nowMs = Date.now()
  const { key, id: storeId } = await f.store()
  const to = await receiver(t)
  const made = await link(f, key, { webhookUrl: to.url })
  t.match(made.webhookSecret, /^whsec_/)
  const other = await link(f, key, { title: 'Other' })
  t.notOk('webhookSecret' in other)
  t.notOk('webhookSecret' in (await f.call('GET', `/api/v1/links/${made.id}`, { key })).body.data)
  await sell(f.db, { storeId, linkId: other.id, amount: '1', atMs: f.clock.nowMs })
  const purchaseId = await sell(f.db, { storeId, linkId: made.id, amount: '2', atMs: f.clock.nowMs })
  await delivery(f, key, made.id, 'delivered')
  t.match(verified(made.webhookSecret, to.received[0]!), { purchaseId, amount: '2.00' })
  t.equal(to.received.length, 1)
  const refused = await f.call('PATCH', `/api/v1/webhooks/${made.id}`, {
    key,
    body: { events: ['refund.due'] },
  })
  t.match(refused, { status: 409, body: { error: { code: 'CONFLICT' } } })
  t.equal((await f.call('DELETE', `/api/v1/webhooks/${made.id}`, { key })).status, 409)
  const later = await f.call('PATCH', `/api/v1/links/${other.id}`, { key, body: { webhookUrl: to.url } })
  t.match(later.body.data.webhookSecret, /^whsec_/)
  const again = await f.call('PATCH', `/api/v1/links/${other.id}`, { key, body: { webhookUrl: to.url } })
  t.notOk('webhookSecret' in again.body.data)
})

t.test('after a rotation both secrets verify, for a day', async (t) => {
  const f = await start(t)
  f.clock.nowMs = Date.now()
  const { key } = await f.store()
  const to = await receiver(t)
  const { id, secret: before } = await hook(f, key, to.url)
  const { secret: after } = (await f.call('POST', `/api/v1/webhooks/${id}/rotate-secret`, { key })).body.data
  t.not(after, before)
  t.equal((await f.call('POST', `/api/v1/webhooks/${id}/test`, { key })).status, 202)
  await to.got(1)
  for (const secret of [before, after]) t.match(verified(secret, to.received[0]!), { event: 'test' })
  f.clock.nowMs += 24 * 60 * 60 * 1000
  await f.call('POST', `/api/v1/webhooks/${id}/test`, { key })
  await to.got(2)
  t.equal(String(to.received[1]!.headers['webhook-signature']).split(' ').length, 1)
  t.equal((await f.call('GET', `/api/v1/webhooks/${id}`, { key })).body.data.previousSecretUntil, null)
})

t.test(
  'a rotation that is sent again because nobody heard the answer leaves the receiver its secret',
  async (t) => {
    const f = await startAdmin(t)
    const { port } = await f.admin.listen({ host: '127.0.0.1', port: 0 })
    f.clock.nowMs = Date.now()
    const { key } = await f.store()
    const to = await receiver(t)
    const [{ id, secret: before }, other] = [await hook(f, key, to.url), await hook(f, key, to.url)]
    const { change } = f.db.webhooks
    const gone = new AbortController()
    const unblock = Promise.withResolvers<void>()
    f.db.webhooks.change = async (...given) => {
      const changed = await change(...given)
      gone.abort()
      await unblock.promise
      return changed
    }
    const rotate = (of: string) => f.call('POST', `/api/v1/webhooks/${of}/rotate-secret`, { key })
    const headers = { authorization: `Bearer ${key}` }
    const url = `http://127.0.0.1:${port}`
    await t.rejects(
      fetch(`${url}/api/v1/webhooks/${id}/rotate-secret`, { method: 'POST', headers, signal: gone.signal }),
    )
    f.db.webhooks.change = change
    // By its time the server has read the end of the connection before.
    await (await fetch(`${url}/healthz`)).text()
    unblock.resolve()
    t.not((await rotate(other.id)).body.data.id, id, 'another webhook is rotated for itself')
    const { secret: after } = (await rotate(id)).body.data
    await f.call('POST', `/api/v1/webhooks/${id}/test`, { key })
    await to.got(1)
    for (const secret of [before, after]) t.match(verified(secret, to.received[0]!), { event: 'test' })
    const { secret: last } = (await rotate(id)).body.data
    t.not(last, after, 'what was heard is rotated again')
  },
)

t.test('tests and replays of a store are counted, by the minute and by the day', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const to = await receiver(t)
  const { id } = await hook(f, key, to.url)
  const test = async () => (await f.call('POST', `/api/v1/webhooks/${id}/test`, { key })).status
  for (let minute = 0; minute < 33; minute++) {
    for (let i = 0; i < 30; i++) t.equal(await test(), 202)
    t.equal(await test(), 429, 'by the minute')
    f.clock.nowMs += 60_000
  }
  for (let i = 0; i < 10; i++) t.equal(await test(), 202)
  t.equal(await test(), 429, 'by the day')
})

t.test("a deleted link's webhook can be deleted, and a link's that is there cannot", async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const to = await receiver(t)
  const { id } = await link(f, key, { webhookUrl: to.url })
  t.equal((await f.call('DELETE', `/api/v1/webhooks/${id}`, { key })).status, 409)
  await f.call('DELETE', `/api/v1/links/${id}`, { key })
  t.equal((await f.call('GET', `/api/v1/webhooks/${id}`, { key })).status, 200, 'sales found later are told')
  t.equal((await f.call('DELETE', `/api/v1/webhooks/${id}`, { key })).status, 200)
  t.equal((await f.call('GET', `/api/v1/webhooks/${id}`, { key })).status, 404)
})

t.test('what fails is tried at the times of the schedule, under one id, and then given up', async (t) => {
  const f = await start(t)
  const { key } = await f.store()
  const to = await receiver(t, (response) => response.writeHead(500).end('x'.repeat(5_000)))
  const { id } = await hook(f, key, to.url)
  await f.call('POST', `/api/v1/webhooks/${id}/test`, { key })
  for (let tries = 1; tries < TRIES_AT_MS.length; tries++) {
    await to.got(tries)
    const log = await waits(f, key, id, tries)
    const waitMs = Date.parse(log.nextTryAt) - f.clock.nowMs
    const plannedMs = TRIES_AT_MS[tries]! - TRIES_AT_MS[tries - 1]!
    t.ok(waitMs >= plannedMs && waitMs <= plannedMs * 1.1, `${waitMs} ms after try ${tries}`)
    f.clock.nowMs += waitMs - 1
    t.equal(to.received.length, tries, 'no sooner')
    f.clock.nowMs += 1
  }
  const log = await delivery(f, key, id, 'failed')
  t.equal(log.tries, TRIES_AT_MS.length)
  t.equal(log.attempts.length, TRIES_AT_MS.length)
  t.match(log.attempts[0], { status: 500, error: /500/, response: 'x'.repeat(1_024) })
  t.equal(new Set(to.received.map(({ headers }) => headers['webhook-id'])).size, 1)
  t.match((await f.call('GET', `/api/v1/webhooks/${id}`, { key })).body.data, {
    ...{ isEnabled: false, disabledReason: 'failing' },
  })
  t.match(f.logged, [{ webhookId: id, disabledReason: 'failing' }], 'and the operator is told')
})

t.test('410 disables, a redirect is not followed, and a replay goes out under the same id', async (t) => {
  const f = await start(t)
  const { key } = await f.store()
  const elsewhere = await receiver(t)
  let status = 302
  const to = await receiver(t, (response) => response.writeHead(status, { location: elsewhere.url }).end())
  const { id } = await hook(f, key, to.url)
  await f.call('POST', `/api/v1/webhooks/${id}/test`, { key })
  const first = await waits(f, key, id, 1)
  t.match(first.attempts, [{ status: 302, error: /redirects are not followed/ }])
  status = 410
  f.clock.nowMs = Date.parse(first.nextTryAt)
  await delivery(f, key, id, 'failed')
  t.match((await f.call('GET', `/api/v1/webhooks/${id}`, { key })).body.data, {
    ...{ isEnabled: false, disabledReason: 'gone' },
  })
  const replay = `/api/v1/webhooks/${id}/deliveries/${first.id}/replay`
  t.equal((await f.call('POST', replay, { key })).status, 409)
  t.equal((await f.call('POST', `/api/v1/webhooks/${id}/test`, { key })).status, 409)
  status = 204
  await f.call('PATCH', `/api/v1/webhooks/${id}`, { key, body: { isEnabled: true } })
  t.equal((await f.call('POST', replay, { key })).status, 202)
  await delivery(f, key, id, 'delivered')
  t.equal(new Set(to.received.map(({ headers }) => headers['webhook-id'])).size, 1)
  t.equal(new Set(to.received.map(({ body }) => body)).size, 1)
  t.equal(elsewhere.received.length, 0)
})

t.test('a receiver that never answers keeps nobody else waiting', async (t) => {
  const f = await start(t)
  const [slow, fast] = [await f.store(), await f.store()]
  const silent = await receiver(t, () => {})
  const to = await receiver(t)
  const { id } = await hook(f, slow.key, silent.url)
  const beside = await hook(f, slow.key, to.url)
  const other = await hook(f, fast.key, to.url)
  for (let i = 0; i < 20; i++) await f.call('POST', `/api/v1/webhooks/${id}/test`, { key: slow.key })
  await silent.got(1)
  await f.call('POST', `/api/v1/webhooks/${beside.id}/test`, { key: slow.key })
  await f.call('POST', `/api/v1/webhooks/${other.id}/test`, { key: fast.key })
  await to.got(2)
  t.ok(silent.received.length < 20)
  t.match(await delivery(f, fast.key, other.id, 'delivered'), { tries: 1 })
})

t.test("another store's webhook is unknown, and what cannot be sent to is refused", async (t) => {
  const f = await startAdmin(t)
  const [own, other] = [await f.store(), await f.store()]
  const to = await receiver(t)
  const { id } = await hook(f, own.key, to.url)
  for (const [method, path] of [
    ['GET', ''],
    ['PATCH', ''],
    ['DELETE', ''],
    ['POST', '/rotate-secret'],
    ['POST', '/test'],
    ['GET', '/deliveries'],
    ['GET', '/deliveries/3f1a1a1a-0000-4000-8000-000000000000'],
    ['POST', '/deliveries/3f1a1a1a-0000-4000-8000-000000000000/replay'],
  ] as const) {
    const body = method === 'PATCH' ? { description: 'mine' } : undefined
    const { status } = await f.call(method, `/api/v1/webhooks/${id}${path}`, { key: other.key, body })
    t.equal(status, 404, `${method} ${path}`)
  }
  for (const url of ['ftp://a.test/', 'http://10.0.0.1/', 'https://user:pass@a.test/', 'nonsense']) {
    const { status, body } = await f.call('POST', '/api/v1/webhooks', { key: own.key, body: { url } })
    t.equal(status, 400, url)
    t.equal(body.error.details[0].path, 'url')
  }
  for (const events of [[], ['purchase.made'], ['test', 'test']]) {
    const body = { url: to.url, events }
    t.equal((await f.call('POST', '/api/v1/webhooks', { key: own.key, body })).status, 400)
  }
  const list = await f.call('GET', '/api/v1/webhooks', { key: own.key })
  t.equal(list.body.data.webhooks.length, 1)
  t.notMatch(list.text, 'whsec_')
  t.equal((await f.call('DELETE', `/api/v1/webhooks/${id}`, { key: own.key })).status, 200)
  t.equal((await f.call('GET', `/api/v1/webhooks/${id}`, { key: own.key })).status, 404)
})

t.test('the calls of a channel are told as sums of a minute', async (t) => {
  const f = await start(t)
  const { key, id: storeId } = await f.store()
  const to = await receiver(t)
  const { id } = await hook(f, key, to.url, { events: ['channel.charged'] })
  const made = await link(f, key)
  const [asset] = builtInAssets
  const { address: token, network } = asset!
  const payer = `0x${'ab'.repeat(20)}`
  const config = { payer, payerAuthorizer: payer, receiver: payer, receiverAuthorizer: payer, salt: '0x00' }
  const channelId = `0x${'cd'.repeat(32)}`
  const none = { totalClaimed: 0n, pendingWithdrawal: 0n, withdrawRequestedAtSeconds: 0, refundNonce: 0n }
  const channel = {
    id: channelId,
    network,
    storeId,
    config: { ...config, token: token.toLowerCase(), withdrawDelay: 900 },
    charged: 0n,
    signed: 0n,
    signature: null,
    published: null,
    balance: 1_000_000n,
    ...none,
  }
  await f.db.channels.open(channel, 1)
  for (const before of [0n, 250_000n])
    await f.db.channels.charge({
      id: channelId,
      owner: 1,
      network,
      asset: token,
      storeId,
      linkId: made.id,
      amountAtomic: 250_000n,
      before,
      signed: before + 250_000n,
      voucherTotal: before + 250_000n,
      signature: `0x${'11'.repeat(65)}`,
      requestHash: '',
      identifier: null,
      response: null,
    })
  await f.db.channelBooks.book(builtInAssets, 10)
  const minute = Math.floor(f.clock.nowMs / 60_000) * 60_000
  f.clock.nowMs = minute + 60_000
  await f.db.channelBooks.addEvents(builtInAssets, 10)
  const { body } = await delivery(f, key, id, 'delivered')
  t.strictSame(JSON.parse(body), {
    event: 'channel.charged',
    amount: '0.50',
    type: 'channel.charged',
    timestamp: new Date(minute + 60_000).toISOString(),
    data: {
      channelId,
      payer: checksumAddress(payer),
      calls: 2,
      amount: '0.50',
      currency: 'USDC',
      network,
      asset: token,
      chain: 'base',
      from: new Date(minute).toISOString(),
      to: new Date(minute + 60_000).toISOString(),
      links: [{ linkId: made.id, slug: made.slug, title: 'Weather', calls: 2, amount: '0.50' }],
    },
  })
})

t.test('a link that is suspended is told of to those who asked', async (t) => {
  const f = await start(t)
  const { key } = await f.store()
  const to = await receiver(t)
  const { id } = await hook(f, key, to.url, { events: ['link.suspended'] })
  const made = await link(f, key)
  const suspension = { sinceMs: 0, reason: 'It is down.', cooldownUntilMs: f.clock.nowMs, permanent: false }
  await f.db.links.setSuspension(made.id, suspension, f.clock.nowMs)
  const { body } = await delivery(f, key, id, 'delivered')
  t.match(JSON.parse(body), {
    ...{ event: 'link.suspended', data: { linkId: made.id, reason: 'It is down.', permanent: false } },
  })
})

t.test(
  'a refund that left the chain and returned beside its replacement is told with the reason',
  async (t) => {
    const f = await start(t)
    f.clock.nowMs = Date.now()
    const { key, id: storeId } = await f.store()
    const to = await receiver(t)
    const { secret } = await hook(f, key, to.url, { events: ['refund.due', 'refund.recorded'] })
    const { id: linkId } = await link(f, key)
    const id = await sell(f.db, { storeId, linkId, amount: '1', atMs: f.clock.nowMs, state: 'delivered' })
    const purchase = (await f.db.purchases.find(id))!
    const { network } = purchase
    /** @returns the body of the event that reports it */
    const apply = async (to: (payment: PaymentRecord) => PaymentChange) => {
      const payment = (await f.db.ledger.find(purchase.paymentKey))!
      t.ok(await f.db.ledger.apply(to(payment)))
      return next()
    }
    let received = 0
    const next = async () => {
      await to.got(++received)
      return verified(secret, to.received[received - 1]!)
    }
    const refundBy = (transaction: string) =>
      apply((payment) => payBack(payment, purchase, { network, transaction, paymentKeys: [] }))
    const [first, second] = [`0x${'b'.repeat(64)}`, `0x${'c'.repeat(64)}`]

    const { event, data } = await refundBy(first)
    t.match({ event, data }, { event: 'refund.recorded', data: { refund: { txHash: first } } })
    t.notOk('reason' in (data as object))
    const refund = (await f.db.purchases.refundOf(id))!
    t.match(await apply((payment) => loseRefund(payment, purchase, refund, false)), {
      event: 'refund.due',
      data: { purchaseId: id, reason: 'refund_left_chain' },
    })
    t.match(await refundBy(second), { event: 'refund.recorded', data: { refund: { txHash: second } } })
    t.match(await apply(noteRefundedTwice), {
      event: 'refund.recorded',
      data: { reason: 'refunded_twice', refund: { txHash: second } },
    })
  },
)

t.test('the schedule is that of the API', (t) => {
  t.same(
    TRIES_AT_MS.map((ms) => ms / 1_000),
    [0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400],
  )
  t.equal(nextTryInMs(1, 0), 5_000)
  t.equal(nextTryInMs(10, 0), undefined)
  t.end()
})

async function link(f: Fixture, key: string, more: object = {}) {
  const body = { url: 'https://example.com/', title: 'Weather', ...more }
  const made = await f.call('POST', '/api/v1/links', { key, body })
  if (made.status !== 201) throw new Error(made.text)
  return made.body.data
}

async function waits(f: Fixture, key: string, id: string, tries: number) {
  for (;;) {
    const log = await delivery(f, key, id, 'waiting')
    if (log.tries === tries) return log
    await new Promise((resolve) => setImmediate(resolve))
  }
}
