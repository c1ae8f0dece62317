import t from 'tap'
import { builtInAssets } from '../../core/domain/asset.ts'
import { convertPrice, parseAmount } from '../../core/domain/money.ts'
import { sell } from '../../test/helpers/admin-api/sell.ts'
import { buyer, hash, MINUTE_MS, shop, usdc } from '../../test/helpers/admin-api/shop.ts'
import { termsOf } from '../../test/helpers/admin-api/startAdmin.ts'
import { bring } from '../../test/helpers/rows.ts'

t.test('a transfer that may be meant for another session is only taken by its name', async (t) => {
  const { f, open, send, confirm, read } = await shop(t)
  const [one, two] = [await open(), await open()]
  const paid = send()
  const unnamed = {
    status: 409,
    body: { error: { code: 'TRANSACTION_NOT_NAMED', message: /^Another payment session/ } },
  }
  t.match(await confirm(one.id, {}), unnamed)
  t.match(await confirm(two.id), unnamed)
  t.match([await read(one.id), await read(two.id)], [{ status: 'open' }, { status: 'open' }])
  t.equal((await confirm(two.id, { txHash: paid.transaction })).status, 200)
  const next = send()
  t.match(await confirm(one.id), { status: 200, body: { data: { txHash: next.transaction } } }, 'one is left')

  const three = await open()
  send()
  send()
  const several = {
    status: 409,
    body: { error: { code: 'TRANSACTION_NOT_NAMED', message: /2 transfers match/ } },
  }
  t.match(await confirm(three.id), several)
  t.match(await f.db.purchases.ledgerCheck(), {
    purchases: 2,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

t.test('two prices that come to the same amount of a coarse token are told apart by name only', async (t) => {
  const coarse = { ...builtInAssets.find(({ network }) => network === 'eip155:84532')!, decimals: 2 }
  const amountOf = (price: string) => convertPrice(parseAmount(price, 6), coarse.usdPerUnit, coarse.decimals)
  const { open, send, confirm } = await shop(t, {
    deps: {
      assets: [coarse],
      termsOf: (sold) => termsOf(sold).map((terms) => ({ ...terms, amount: `${amountOf(sold.price)}` })),
    },
  })
  const [one] = [await open('49.991'), await open('49.992')]
  send({ amountAtomic: 5_000n })
  t.match(await confirm(one.id), { status: 409, body: { error: { code: 'TRANSACTION_NOT_NAMED' } } })
  const alone = await open('49.98')
  send({ amountAtomic: 4_998n })
  t.equal((await confirm(alone.id)).status, 200, 'another amount is another')
})

t.test('a transfer that was sent while another session was open is not taken unnamed', async (t) => {
  const { f, key, open, send, confirm } = await shop(t)
  const ended = await open()
  await f.call('POST', `/api/v1/payments/${ended.id}/cancel`, { key })
  const session = await open()
  f.clock.nowMs += 45_000
  send()
  t.match(await confirm(session.id), { status: 409, body: { error: { code: 'TRANSACTION_NOT_NAMED' } } })
})

t.test('a transfer of another session, a sale or a refund is refused with 409', async (t) => {
  const { f, key, id: storeId, open, send, confirm } = await shop(t, { refunds: true })
  const [one, two] = [await open(), await open('49.990')]
  const paid = send()
  t.equal((await confirm(one.id, { txHash: paid.transaction })).status, 200)
  const used = { status: 409, body: { error: { code: 'TRANSACTION_ALREADY_USED' } } }
  t.match(await confirm(two.id, { txHash: paid.transaction }), used)

  const linkId = '00000000-0000-4000-8000-000000000001'
  const sold = (await f.db.purchases.find(
    await sell(f.db, { storeId, linkId, amount: '49.99', atMs: f.clock.nowMs }),
  ))!
  send({ key: sold.paymentKey, transaction: hash('a') })
  t.match(await confirm(two.id, { txHash: hash('a') }), used, 'an x402 settlement')

  const back = send()
  const path = `/api/v1/purchases/${sold.id}/refunds`
  t.equal((await f.call('POST', path, { key, body: { txHash: back.transaction } })).status, 200)
  t.match(await confirm(two.id, { txHash: back.transaction }), used, 'money that was sent back')
  t.equal((await confirm(two.id)).status, 202, 'a look does not take any of them')
  const again = await f.call('POST', `/api/v1/purchases/${sold.id}/refunds`, {
    key,
    body: { txHash: paid.transaction },
  })
  t.equal(again.status, 409)
})

t.test('a session’s transfer is no refund of any sale', async (t) => {
  const { f, key, id: storeId, open, send, confirm } = await shop(t, { refunds: true })
  const session = await open()
  const paid = send()
  t.equal((await confirm(session.id, { txHash: paid.transaction })).status, 200)
  const linkId = '00000000-0000-4000-8000-000000000001'
  const sold = await sell(f.db, { storeId, linkId, amount: '1', atMs: f.clock.nowMs })
  t.match(
    await f.call('POST', `/api/v1/purchases/${sold}/refunds`, { key, body: { txHash: paid.transaction } }),
    { status: 409, body: { error: { code: 'TRANSACTION_ALREADY_USED' } } },
  )
})

t.test('a store takes no transfers to a wallet that several others were paid to before', async (t) => {
  const { f, wallet, key, open, send, confirm } = await shop(t)
  const [sister, thief] = [await f.store(), await f.store()]
  const cold = { base: '0x00000000000000000000000000000000000000A7' }
  for (const one of [{ key, wallet }, sister, thief]) {
    f.clock.nowMs += 1
    t.equal((await f.movePayout(one.key, one.wallet, cold)).status, 200)
  }
  const sessionOf = async (key: string) =>
    (await f.call('POST', '/api/v1/payments', { key, body: { amount: '49.99', title: 'A table' } })).body.data
  const [session, trap] = [await sessionOf(sister.key), await sessionOf(thief.key)]
  const paid = send()
  const taken = { status: 409, body: { error: { code: 'CONFLICT' } } }
  t.match(await confirm(trap.id, { txHash: paid.transaction }, thief.key), taken)
  t.match(await confirm(trap.id, {}, thief.key), taken)
  t.match(await confirm(session.id, { txHash: paid.transaction }, sister.key), { status: 200 })
  const [own, later] = [await open(), send()]
  t.match(await confirm(own.id, { txHash: later.transaction }), { status: 200 }, 'whoever was first')
})

t.test('a refund to a buyer who has a session open is not taken before it is recorded', async (t) => {
  for (const end of ['recorded', 'recorded otherwise', 'forgotten'] as const) {
    const { f, open, send, confirm, wallet, read } = await shop(t, { refunds: true })
    const seller = await f.store()
    const owed = await bring(f.db.ledger, {
      ...{ state: 'refund_due', linkId: null, storeId: seller.id, atMs: f.clock.nowMs, asset: usdc },
      ...{ payer: wallet.address, payTo: seller.wallet.address, amountAtomic: 49_990_000n },
    })
    const session = await open()
    const back = send({ from: seller.wallet.address })
    const taken = { status: 409, body: { error: { code: 'CONFLICT', message: /owes exactly this/ } } }
    t.match(await confirm(session.id, { txHash: back.transaction }), taken)
    t.match(await confirm(session.id), taken)
    t.match(await read(session.id), { status: 'open' })
    if (end === 'forgotten') f.clock.nowMs = back.atMs + 24 * 60 * MINUTE_MS
    else
      t.match(
        await f.call('POST', `/api/v1/purchases/${owed.purchaseId}/refunds`, {
          ...{ key: seller.key, body: { txHash: end === 'recorded' ? back.transaction : hash('c') } },
        }),
        { status: 200, body: { data: { status: 'refunded' } } },
      )
    const after = await confirm(session.id, { txHash: back.transaction })
    if (end === 'recorded')
      t.match(after, { status: 409, body: { error: { code: 'TRANSACTION_ALREADY_USED' } } })
    else if (end === 'forgotten') t.match(after.body.data, { refundDue: { txHash: back.transaction } })
    else t.match(after, { status: 200, body: { data: { status: 'confirmed' } } })
    t.match(await f.db.purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
  }
})

t.test('what a seller gives back without owing it is left to be recorded for ten minutes', async (t) => {
  for (const end of ['recorded', 'forgotten', 'recorded, paid elsewhere by now'] as const) {
    const { f, open, send, confirm, wallet } = await shop(t, { refunds: true })
    const seller = await f.store()
    const sold = await bring(f.db.ledger, {
      ...{ state: 'delivered', linkId: null, storeId: seller.id, atMs: f.clock.nowMs, asset: usdc },
      ...{ payer: wallet.address, payTo: seller.wallet.address, amountAtomic: 49_990_000n },
    })
    if (end === 'recorded, paid elsewhere by now')
      await f.db.stores.update(
        seller.id,
        { payout: { base: '0x00000000000000000000000000000000000000E1' } },
        f.clock.nowMs,
      )
    const session = await open()
    const back = send({ from: seller.wallet.address })
    const taken = { status: 409, body: { error: { code: 'CONFLICT', message: /may be a refund/ } } }
    t.match(await confirm(session.id, { txHash: back.transaction }), taken)
    t.match(await confirm(session.id), taken)
    t.equal(
      (await confirm((await open()).id, { txHash: send().transaction })).status,
      200,
      'no seller is a buyer',
    )
    if (end === 'forgotten') f.clock.nowMs += 10 * MINUTE_MS
    else
      t.match(
        await f.call('POST', `/api/v1/purchases/${sold.purchaseId}/refunds`, {
          ...{ key: seller.key, body: { txHash: back.transaction } },
        }),
        { status: 200, body: { data: { status: 'refunded' } } },
      )
    const after = await confirm(session.id, { txHash: back.transaction })
    if (end !== 'forgotten')
      t.match(after, { status: 409, body: { error: { code: 'TRANSACTION_ALREADY_USED' } } })
    else t.match(after, { status: 200, body: { data: { status: 'confirmed' } } })
    t.match(await f.db.purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
  }
})

t.test('only exactly what is owed, from the wallet that was paid, may be a refund', async (t) => {
  const { f, open, send, confirm, wallet } = await shop(t)
  const seller = await f.store()
  const owing = { from: seller.wallet.address }
  for (const more of [
    { amountAtomic: 49_980_000n },
    { payTo: buyer },
    { payer: buyer },
    { state: 'refunded' as const },
  ])
    await bring(f.db.ledger, {
      ...{ state: 'refund_due', linkId: null, storeId: seller.id, atMs: f.clock.nowMs, asset: usdc },
      ...{ payer: wallet.address, payTo: seller.wallet.address, amountAtomic: 49_990_000n, ...more },
    })
  t.equal((await confirm((await open()).id, { txHash: send(owing).transaction })).status, 200)
})
