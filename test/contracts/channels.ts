import type { Test } from 'tap'
import { type Channel, CLAIM_RECHECK_MS } from '../../core/domain/channel.ts'
import type { ChannelCharge, ChargedCall } from '../../core/ports/store/channels.ts'
import type { DataStore } from '../../core/ports/store/store.ts'
import type { testClock } from './samples.ts'

type Clock = ReturnType<typeof testClock>
type Make = (
  t: Test,
) => Promise<Pick<DataStore, 'channels' | 'leases'> & { readonly clock: Clock; readonly storeClock: Clock }>

const network = 'eip155:84532'
const hex = (byte: string, bytes: number): string => `0x${byte.repeat(bytes)}`
const signatureOf = (byte: string): string => hex(byte, 65)

/** An amount above 64 bits, as tokens of 18 decimals have. */
const LARGE = 10n ** 25n

const sample = (byte = 'ab'): Channel => ({
  id: hex(byte, 32),
  network,
  storeId: 'store',
  config: {
    payer: hex('11', 20),
    payerAuthorizer: hex('22', 20),
    receiver: hex('33', 20),
    receiverAuthorizer: hex('44', 20),
    token: hex('55', 20),
    withdrawDelay: 3_600,
    salt: hex('66', 32),
  },
  charged: 0n,
  signed: 0n,
  signature: null,
  published: null,
  balance: LARGE,
  totalClaimed: 0n,
  pendingWithdrawal: 0n,
  withdrawRequestedAtSeconds: 0,
  refundNonce: 0n,
})

const chargeOf = (owner: number, before: bigint, more: Partial<ChannelCharge> = {}): ChannelCharge => ({
  id: hex('ab', 32),
  owner,
  network,
  asset: hex('55', 20),
  storeId: 'store',
  linkId: 'link',
  amountAtomic: LARGE / 10n,
  before,
  signed: before + (more.amountAtomic ?? LARGE / 10n),
  signature: signatureOf('77'),
  voucherTotal: before + (more.amountAtomic ?? LARGE / 10n),
  requestHash: 'request',
  identifier: null,
  response: {
    status: 200,
    headers: ['Content-Type', 'application/json'],
    mediaType: 'application/json',
    body: new Uint8Array([1, 2, 3]),
    receipt: 'receipt',
  },
  ...more,
})

const call = (voucherTotal: bigint, requestHash = 'request'): ChargedCall => ({
  requestHash,
  voucherTotal,
  identifier: null,
  isStored: true,
})

/** What every database promises about payment channels. */
export async function channelsContract(t: Test, make: Make): Promise<void> {
  t.test('a channel is stored once and charged call by call', async (t) => {
    const { channels, clock } = await make(t)
    t.equal(await channels.take(sample().id, 1), undefined, 'unknown')
    t.same(await channels.open(sample(), 1), {
      channel: sample(),
      last: null,
      lastAgeMs: 0,
      refund: null,
      isAbandoned: false,
    })
    const step = LARGE / 10n
    t.equal(await channels.charge(chargeOf(1, 0n)), true)
    t.equal(await channels.charge(chargeOf(1, 0n)), false, 'the same total is charged once')
    t.equal(await channels.charge(chargeOf(1, step, { response: null })), true)
    t.equal(
      await channels.lastResponse(sample().id, call(2n * step)),
      undefined,
      'a long response is not stored',
    )
    t.equal(await channels.charge(chargeOf(1, 2n * step, { requestHash: 'third' })), true)
    t.equal(await channels.lastResponse(sample().id, call(2n * step)), undefined, 'a later call was charged')
    const last = await channels.lastResponse(sample().id, call(3n * step, 'third'))
    t.match(last, { status: 200, receipt: 'receipt' })
    t.same(Buffer.from(last!.body), Buffer.from([1, 2, 3]))
    const again = await channels.open({ ...sample(), balance: 1n }, 1)
    t.match(again, { last: call(3n * step, 'third'), channel: { charged: 3n * step, balance: LARGE } })
    t.same(await channels.earnings('store'), [
      {
        network,
        asset: hex('55', 20),
        calls: 3,
        chargedAtomic: 3n * step,
        claimedAtomic: 0n,
      },
    ])
    t.same(await channels.earnings('other'), [])
    for (const [i, response] of [null, chargeOf(1, 0n).response].entries()) {
      const before = BigInt(3 + i) * step
      t.equal(await channels.charge(chargeOf(1, before, { identifier: `order-${i}`, response })), true)
      const taken = { last: { isStored: response !== null, identifier: `order-${i}` } }
      t.match(await channels.take(sample().id, 1), taken, 'the identifier is kept without the response, too')
    }
    clock.nowMs += 6_000
    t.match(await channels.take(sample().id, 1), { lastAgeMs: 6_000 })
  })

  t.test('a call that has used less than its voucher allows is charged what it has used', async (t) => {
    const { channels } = await make(t)
    await channels.open(sample(), 1)
    const voucher = { signed: LARGE, signature: signatureOf('77'), voucherTotal: LARGE }
    const nothing = { amountAtomic: 0n, signed: 0n, signature: null, voucherTotal: LARGE }
    t.equal(await channels.charge(chargeOf(1, 0n, nothing)), true)
    t.match(await channels.take(sample().id, 1), { channel: { charged: 0n, signed: 0n, signature: null } })
    t.same(await channels.unclaimed(network, null, 10), [], 'nothing is to be claimed')
    t.match(await channels.lastResponse(sample().id, call(LARGE)), { receipt: 'receipt' })
    t.equal(await channels.lastResponse(sample().id, call(LARGE, 'other')), undefined)
    t.equal(await channels.charge(chargeOf(2, 0n, nothing)), false, 'another process charges nothing')
    t.equal(await channels.charge(chargeOf(1, 1n, nothing)), false, 'nor on another total')

    t.equal(await channels.charge(chargeOf(1, 0n, { ...voucher, amountAtomic: 7n })), true)
    t.equal(
      await channels.charge(chargeOf(1, 7n, { ...voucher, amountAtomic: 0n, voucherTotal: LARGE + 7n })),
      true,
    )
    const kept = { charged: 7n, signed: LARGE, signature: signatureOf('77'), published: null }
    t.match(await channels.take(sample().id, 1), { channel: kept, last: call(LARGE + 7n) })
    t.match(await channels.unclaimed(network, null, 10), [{ channel: kept }])
    t.match(await channels.earnings('store'), [{ calls: 3, chargedAtomic: 7n }])

    t.equal(await channels.update(sample().id, { ...sample(), totalClaimed: 7n }), 7n)
    t.match(await channels.take(sample().id, 1), { channel: { published: LARGE }, last: null })
    await channels.update(sample().id, { ...sample(), totalClaimed: 9n })
    const behind = { charged: 9n, signed: 9n, signature: null, published: LARGE }
    t.match(await channels.take(sample().id, 1), { channel: behind }, 'a restored database')
  })

  t.test('of many charges at once exactly one wins', async (t) => {
    const { channels } = await make(t)
    await channels.open(sample(), 1)
    const won = await Promise.all(Array.from({ length: 50 }, () => channels.charge(chargeOf(1, 0n))))
    t.equal(won.filter(Boolean).length, 1)
    t.match(await channels.earnings('store'), [{ calls: 1 }])
  })

  t.test('calls of many channels at once are all charged and counted', async (t) => {
    const { channels } = await make(t)
    const ids = Array.from({ length: 40 }, (_, i) => hex((16 + i).toString(16), 32))
    for (const id of ids) await channels.open({ ...sample(), id }, 1)
    for (let n = 0n; n < 3n; n++) {
      const charged = ids.map((id) => channels.charge(chargeOf(1, n, { id, amountAtomic: 1n })))
      t.same(
        await Promise.all(charged),
        ids.map(() => true),
      )
    }
    t.match(await channels.earnings('store'), [{ calls: 120, chargedAtomic: 120n }])
    t.match(await channels.take(ids[39]!, 1), { channel: { charged: 3n, signature: signatureOf('77') } })
  })

  t.test('a channel belongs to one process while the lease of that process is valid', async (t) => {
    const { channels, leases, storeClock } = await make(t)
    const [first, second] = [await leases.take('first', 10_000), await leases.take('second', 60_000)]
    if (first === undefined || second === undefined) return t.fail('no leases')
    await channels.open(sample(), first.id)
    t.same(await channels.take(sample().id, second.id), { ownedBy: first.id })
    t.same(await channels.open(sample(), second.id), { ownedBy: first.id })
    t.equal(await channels.charge(chargeOf(second.id, 0n)), false, 'another process charges nothing')
    await channels.release([sample().id], second.id, null)
    t.same(await channels.take(sample().id, second.id), { ownedBy: first.id }, 'only the owner releases it')
    await channels.release([sample().id], first.id, second.id)
    t.same(await channels.take(sample().id, first.id), { ownedBy: second.id })
    t.equal(await channels.charge(chargeOf(first.id, 0n)), false, 'it is handed over')
    await channels.release([sample().id], second.id, first.id)
    storeClock.nowMs += 10_001
    const taken = { channel: { charged: 0n }, isAbandoned: true }
    t.match(await channels.take(sample().id, second.id), taken, 'the lease is over')
    t.match(await channels.take(sample().id, second.id), { isAbandoned: false })
    t.equal(await channels.charge(chargeOf(first.id, 0n)), false, 'the former owner charges nothing')
    await channels.release([sample().id], second.id, null)
    t.match(await channels.take(sample().id, first.id), { channel: { charged: 0n }, isAbandoned: false })
  })

  t.test('a refund is noted before it is sent', async (t) => {
    const { channels } = await make(t)
    await channels.open(sample(), 1)
    const refund = { nonce: 3n, amount: LARGE }
    t.equal(await channels.noteRefund(sample().id, 1, refund), true)
    t.match(await channels.take(sample().id, 1), { refund })
    t.equal(await channels.noteRefund(sample().id, 2, null), false, 'by a process that is not the owner')
    t.match(await channels.take(sample().id, 1), { refund })
    t.equal(await channels.noteRefund(sample().id, 1, null), true)
    t.match(await channels.take(sample().id, 1), { refund: null })
  })

  t.test('what is claimed is no longer unclaimed, and its response is deleted', async (t) => {
    const { channels, clock } = await make(t)
    for (const byte of ['ab', 'cd', 'ef']) await channels.open(sample(byte), 1)
    const step = LARGE / 10n
    t.same(await channels.unclaimed(network, null, 10), [])
    const sinceMs = clock.now()
    await channels.charge(chargeOf(1, 0n))
    clock.nowMs += 1_000
    await channels.charge(chargeOf(1, step))
    await channels.charge(chargeOf(1, 0n, { id: hex('cd', 32) }))
    const page = await channels.unclaimed(network, null, 1)
    t.match(page, [{ channel: { id: hex('ab', 32), charged: 2n * step }, sinceMs, parked: null }])
    t.match(await channels.unclaimed(network, hex('ab', 32), 10), [{ channel: { id: hex('cd', 32) } }])
    t.same(await channels.unclaimed('eip155:1', null, 10), [])

    const onChain = { ...sample(), totalClaimed: step, pendingWithdrawal: 5n, refundNonce: 2n }
    t.equal(await channels.update(sample().id, onChain), step)
    t.ok(await channels.lastResponse(sample().id, call(2n * step)), 'the last voucher is not claimed')
    await channels.park(sample().id, 5_000, 'a reason')
    t.match(await channels.unclaimed(network, null, 1), [
      {
        channel: { totalClaimed: step, pendingWithdrawal: 5n, refundNonce: 2n },
        parked: { untilMs: 5_000, reason: 'a reason' },
      },
    ])
    t.equal(await channels.update(sample().id, { ...onChain, totalClaimed: 2n * step }), step)
    t.equal(await channels.update(sample().id, { ...onChain, totalClaimed: 2n * step }), 0n)
    t.equal(await channels.lastResponse(sample().id, call(2n * step)), undefined)
    const claimed = { channel: { totalClaimed: 2n * step }, sinceMs: clock.now(), parked: null }
    t.match(await channels.unclaimed(network, null, 1), [claimed], 'its block may leave the chain')
    clock.nowMs += CLAIM_RECHECK_MS
    await channels.update(sample().id, { ...onChain, totalClaimed: 2n * step })
    t.match(await channels.unclaimed(network, null, 10), [{ channel: { id: hex('cd', 32) } }])
    t.match(await channels.earnings('store'), [
      { calls: 3, chargedAtomic: 3n * step, claimedAtomic: 2n * step },
    ])
    t.equal(await channels.update(hex('00', 32), onChain), 0n, 'an unknown channel')

    t.equal(await channels.update(sample().id, onChain), -step, 'the block of the claim has left the chain')
    const [again] = await channels.unclaimed(network, null, 1)
    t.match(again, { channel: { id: sample().id, charged: 2n * step, totalClaimed: step } })
    await channels.park(sample().id, 5_000, 'a reason')
    await channels.update(sample().id, onChain)
    t.match(await channels.unclaimed(network, null, 1), [{ parked: { untilMs: 5_000 } }])
    await channels.update(sample().id, { ...onChain, balance: 1n })
    t.match(await channels.unclaimed(network, null, 1), [{ parked: null }], 'another balance')
    await channels.update(sample().id, { ...onChain, totalClaimed: 5n * step })
    const behind = await channels.take(sample().id, 1)
    t.match(behind, { channel: { charged: 5n * step, signature: null } }, 'a restored database')
    await channels.update(sample().id, onChain)
    t.match(await channels.unclaimed(network, null, 10), [{ channel: { id: hex('cd', 32) } }], 'no voucher')
  })
}
