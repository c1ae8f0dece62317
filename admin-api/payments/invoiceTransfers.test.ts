import t from 'tap'
import { feeShop, operator, refused, usdc } from '../../test/helpers/admin-api/feeShop.ts'
import { bring } from '../../test/helpers/rows.ts'

const MINUTE_MS = 60_000

t.test('a plain transfer pays it when a wallet of the store sent it, and nobody else takes it', async (t) => {
  const { f, opened, sale, ask, confirm, send, wallet, owed, balanced } = await feeShop(t)
  const other = await opened()
  await sale('20')
  await other.sale('20')
  const [mine, theirs] = [(await ask()).body.data, (await other.ask()).body.data]
  const sent = send(wallet.address, 1_000_000n)
  const stranger = {
    status: 422,
    body: { error: { code: 'TRANSACTION_MISMATCH', message: /a wallet that signs in to your store/ } },
  }
  t.match(await other.confirm(theirs.id, sent.transaction), stranger)
  t.equal((await other.confirm(theirs.id)).status, 202, 'nor is it found for it')
  t.equal((await other.confirm(mine.id, sent.transaction)).status, 404)
  const [one, again] = [await confirm(mine.id), await confirm(mine.id, sent.transaction)]
  t.match([one, again], [{ status: 200 }, { status: 200 }])
  t.match(one.body.data, { status: 'confirmed', txHash: sent.transaction })
  t.match(await confirm((await ask()).body.data?.id ?? mine.id, sent.transaction), { status: 200 })
  t.match((await owed()).owed, [{ amount: '0.00' }])
  t.match((await other.owed()).owed, [{ amount: '1.00' }])

  const both = send(other.wallet.address, 1_000_000n)
  send(wallet.address, 1_000_000n, { transaction: both.transaction, event: 'transfer:1' })
  t.equal((await other.confirm(theirs.id, both.transaction)).status, 200, 'also out of a batch of several')
  f.clock.nowMs += 31 * MINUTE_MS
  t.match((await other.owed()).owed, [{ amount: '0.00' }])
  await balanced()
})

t.test('a transfer for an invoice that is over is a credit, and the answer says so each time', async (t) => {
  const { f, sale, ask, confirm, send, wallet, owed, balanced } = await feeShop(t)
  await sale('20')
  const invoice = (await ask()).body.data
  f.clock.nowMs += 31 * MINUTE_MS
  const { transaction } = send(wallet.address, 1_000_000n)
  const credited = { status: 200, body: { data: { status: 'expired', credited: { txHash: transaction } } } }
  t.match(await confirm(invoice.id), credited)
  t.match(await confirm(invoice.id, transaction), credited)
  t.match((await owed()).owed, [{ amount: '0.00' }])
  await sale('20')
  const next = (await ask()).body.data
  const [first, second] = [send(wallet.address, 1_000_000n), send(wallet.address, 1_000_000n)]
  const paid = await confirm(next.id, first.transaction)
  t.match(paid, { status: 200, body: { data: { status: 'confirmed' } } })
  t.notOk('credited' in paid.body.data, 'what pays the invoice is no credit')
  t.match(await confirm(next.id, second.transaction), {
    status: 200,
    body: { data: { status: 'confirmed', credited: { txHash: second.transaction } } },
  })
  t.match((await owed()).owed, [{ amount: '-1.00' }])
  await balanced()
})

t.test('an invoice that is made after the clock was put back takes what is sent for it', async (t) => {
  const s = await feeShop(t)
  await s.sale('20')
  await s.ask()
  await s.sale('20')
  s.f.clock.nowMs -= 10 * MINUTE_MS
  const invoice = (await s.ask()).body.data
  t.match(invoice, { amount: '2.00' })
  const { transaction } = s.send(s.wallet.address, 2_000_000n)
  t.match(await s.confirm(invoice.id, transaction), { status: 200, body: { data: { status: 'confirmed' } } })
  await s.balanced()
})

t.test(
  'a wallet that fees were once paid to takes what landed in time, and nothing afterwards',
  async (t) => {
    const s = await feeShop(t)
    await s.sale('20')
    const invoice = (await s.ask()).body.data
    const inTime = s.send(s.wallet.address, 1_000_000n)
    s.moveFees(`0x${'5'.repeat(40)}`)
    s.f.clock.nowMs += 60 * MINUTE_MS
    t.equal((await s.confirm(invoice.id, inTime.transaction)).status, 200)
    const afterwards = s.send(s.wallet.address, 1_000_000n)
    const refused = await s.confirm(invoice.id, afterwards.transaction)
    t.match(refused, {
      status: 422,
      body: { error: { code: 'TRANSACTION_MISMATCH', message: /no longer paid to/ } },
    })
    await s.balanced()
  },
)

t.test('a transfer for fees is no sale of whoever is paid to the same wallet', async (t) => {
  const { f, opened, sale, ask, confirm, send, wallet } = await feeShop(t)
  const thief = await opened()
  t.equal((await f.movePayout(thief.key, thief.wallet, { base: operator })).status, 200)
  await sale('20')
  const invoice = (await ask()).body.data
  const body = { amount: '1.00', title: 'Mine' }
  const trap = (await f.call('POST', '/api/v1/payments', { key: thief.key, body })).body.data
  const sent = send(wallet.address, 1_000_000n)
  const refusal = refused('CONFLICT', /may be meant for the invoice/)
  t.match(await thief.confirm(trap.id, sent.transaction), refusal)
  t.match(await thief.confirm(trap.id), refusal)
  t.match(await confirm(invoice.id, sent.transaction), {
    status: 200,
    body: { data: { status: 'confirmed' } },
  })
})

t.test(
  'a transfer for fees in a token of any rate is no sale of whoever is paid to the same wallet',
  async (t) => {
    const expensive = { ...usdc, symbol: 'DEAR', usdPerUnit: '3' }
    const { f, opened, ask, confirm, send, wallet, id: storeId } = await feeShop(t, { assets: [expensive] })
    const thief = await opened()
    t.equal((await f.movePayout(thief.key, thief.wallet, { base: operator })).status, 200)
    const row = { state: 'settled', linkId: null, storeId, asset: expensive.address } as const
    await bring(f.db.ledger, { ...row, amountAtomic: 6_666_680n, response: null, assets: [expensive] })
    const invoice = (await ask()).body.data
    t.match(invoice, { amount: '0.333334' })
    const body = { amount: '1.00', title: 'Mine' }
    const trap = (await f.call('POST', '/api/v1/payments', { key: thief.key, body })).body.data
    const sent = send(wallet.address, 333_334n)
    t.match(
      await thief.confirm(trap.id, sent.transaction),
      refused('CONFLICT', /may be meant for the invoice/),
    )
    t.equal((await confirm(invoice.id, sent.transaction)).status, 200)
  },
)
