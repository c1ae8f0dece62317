import type { Channel, ChannelId, ChannelOnChain, SentRefund } from '../../../core/domain/channel.ts'
import type { NetworkId } from '../../../core/domain/network.ts'
import type {
  ChannelCharge,
  ChannelEarnings,
  ChannelResponse,
  Channels,
  OwnedChannel,
  OwnedElsewhere,
  UnclaimedChannel,
} from '../../../core/ports/store/channels.ts'
import { type CallsOf, locked, type Reads, row, type Steps, type Tx } from './transaction.ts'

/** Rows of a link's sums per hour. */
const PARTS = 16
const HOUR_MS = 3_600_000

const bytesOf = (hex: string): Uint8Array => new Uint8Array(Buffer.from(hex.slice(2), 'hex'))
const hexOf = (bytes: Uint8Array): string =>
  `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')}`

interface ChannelRow {
  readonly id: Uint8Array
  readonly charged: string
  readonly signature: Uint8Array | null
  readonly balance: string
  readonly claimed: string
  readonly pending: string
  readonly withdraw_requested_at: number
  readonly refund_nonce: string
  readonly owner: number | null
  readonly unclaimed_since_ms: number | null
  readonly parked_until_ms: number | null
  readonly parked_reason: string | null
  readonly sent_refund_nonce: string | null
  readonly sent_refund_amount: string | null
  readonly network: NetworkId
  readonly store_id: string
  readonly payer: string
  readonly payer_authorizer: string
  readonly receiver: string
  readonly receiver_authorizer: string
  readonly token: string
  readonly withdraw_delay: number
  readonly salt: string
}

const channelOf = (given: ChannelRow): Channel => ({
  id: hexOf(given.id),
  network: given.network,
  storeId: given.store_id,
  config: {
    payer: given.payer,
    payerAuthorizer: given.payer_authorizer,
    receiver: given.receiver,
    receiverAuthorizer: given.receiver_authorizer,
    token: given.token,
    withdrawDelay: given.withdraw_delay,
    salt: given.salt,
  },
  charged: BigInt(given.charged),
  signature: given.signature === null ? null : hexOf(given.signature),
  balance: BigInt(given.balance),
  totalClaimed: BigInt(given.claimed),
  pendingWithdrawal: BigInt(given.pending),
  withdrawRequestedAtSeconds: given.withdraw_requested_at,
  refundNonce: BigInt(given.refund_nonce),
})

/** Takes the row for a process, unless a process with a valid lease has it. */
function* take(tx: Tx, id: Uint8Array, owner: number): Steps<OwnedChannel | OwnedElsewhere | undefined> {
  const found = yield* tx.one<ChannelRow>`SELECT c.*, k.network, k.store_id, k.payer, k.payer_authorizer,
      k.receiver, k.receiver_authorizer, k.token, k.withdraw_delay, k.salt
    FROM channels c JOIN channel_configs k ON k.id = c.id WHERE c.id = ${id} ${locked}`
  if (found === undefined) return undefined
  if (found.owner !== null && found.owner !== owner) {
    const nowMs = yield* tx.storeNowMs()
    const held = yield* tx.one`SELECT id FROM leases WHERE id = ${found.owner} AND expires_at_ms > ${nowMs}`
    if (held !== undefined) return { ownedBy: found.owner }
  }
  const isAbandoned = found.owner !== null && found.owner !== owner
  if (found.owner !== owner) yield* tx.run`UPDATE channels SET owner = ${owner} WHERE id = ${id}`
  const last = yield* tx.one<{ request_hash: string }>`
    SELECT request_hash FROM channel_responses WHERE id = ${id} AND status > 0`
  const { sent_refund_nonce: nonce, sent_refund_amount: amount } = found
  const refund = nonce === null ? null : { nonce: BigInt(nonce), amount: BigInt(amount!) }
  return { channel: channelOf(found), lastRequestHash: last?.request_hash ?? null, refund, isAbandoned }
}

export const channelWrites = {
  take,

  *open(tx: Tx, channel: Channel, owner: number): Steps<OwnedChannel | OwnedElsewhere> {
    const id = bytesOf(channel.id)
    const { config } = channel
    yield* tx.run`INSERT INTO channel_configs ${row({
      id,
      network: channel.network,
      store_id: channel.storeId,
      payer: config.payer,
      payer_authorizer: config.payerAuthorizer,
      receiver: config.receiver,
      receiver_authorizer: config.receiverAuthorizer,
      token: config.token,
      withdraw_delay: config.withdrawDelay,
      salt: config.salt,
    })} ON CONFLICT (id) DO NOTHING`
    yield* tx.run`INSERT INTO channels ${row({
      id,
      charged: String(channel.charged),
      signature: null,
      balance: String(channel.balance),
      claimed: String(channel.totalClaimed),
      pending: String(channel.pendingWithdrawal),
      withdraw_requested_at: channel.withdrawRequestedAtSeconds,
      refund_nonce: String(channel.refundNonce),
      owner,
    })} ON CONFLICT (id) DO NOTHING`
    return (yield* take(tx, id, owner))!
  },

  *charge(tx: Tx, charge: ChannelCharge): Steps<boolean> {
    const { before, amountAtomic, owner, response, requestHash } = charge
    const id = bytesOf(charge.id)
    const signature = bytesOf(charge.signature)
    const after = String(before + amountAtomic)
    const charged = yield* tx.run`UPDATE channels SET charged = ${after}, signature = ${signature},
        unclaimed_since_ms = coalesce(unclaimed_since_ms, ${tx.nowMs})
      WHERE id = ${id} AND charged = ${String(before)} AND owner = ${owner}`
    if (charged === 0) return false
    yield* tx.run`INSERT INTO channel_responses ${row({
      id,
      request_hash: requestHash,
      status: response?.status ?? 0,
      headers: JSON.stringify(response?.headers ?? []),
      media_type: response?.mediaType ?? '',
      body: response?.body ?? new Uint8Array(),
      receipt: response?.receipt ?? '',
    })} ON CONFLICT (id) DO UPDATE SET request_hash = excluded.request_hash, status = excluded.status,
      headers = excluded.headers, media_type = excluded.media_type, body = excluded.body, receipt = excluded.receipt`
    yield* addToSums(tx, charge, id[0]! % PARTS)
    return true
  },

  *update(tx: Tx, channelId: ChannelId, state: ChannelOnChain): Steps<bigint> {
    const id = bytesOf(channelId)
    const found = yield* tx.one<ChannelRow>`SELECT c.*, k.network, k.store_id, k.token
      FROM channels c JOIN channel_configs k ON k.id = c.id WHERE c.id = ${id} ${locked}`
    if (found === undefined) return 0n
    const { balance, totalClaimed, pendingWithdrawal, refundNonce } = state
    yield* tx.run`UPDATE channels SET balance = ${String(balance)}, claimed = ${String(totalClaimed)},
      pending = ${String(pendingWithdrawal)}, withdraw_requested_at = ${state.withdrawRequestedAtSeconds},
      refund_nonce = ${String(refundNonce)} WHERE id = ${id}`
    const charged = BigInt(found.charged)
    // Only a database that was restored from a copy is behind the contract. What is claimed was charged, and is not sold again.
    if (totalClaimed > charged)
      yield* tx.run`UPDATE channels SET charged = ${String(totalClaimed)}, signature = NULL WHERE id = ${id}`
    // The block of a claim can leave the chain, and the channel has to be claimed again then.
    if (totalClaimed < charged)
      yield* tx.run`UPDATE channels SET unclaimed_since_ms = coalesce(unclaimed_since_ms, ${tx.nowMs})
        WHERE id = ${id} AND signature IS NOT NULL`
    const risen = totalClaimed - BigInt(found.claimed)
    if (risen === 0n) return 0n
    const { store_id: storeId, network, token: asset } = found
    const before = yield* tx.one<{ amount: string }>`SELECT amount FROM channel_claims
      WHERE store_id = ${storeId} AND network = ${network} AND asset = ${asset} ${locked}`
    const amount = String(BigInt(before?.amount ?? 0) + risen)
    yield* tx.run`INSERT INTO channel_claims ${row({ store_id: storeId, network, asset, amount })}
      ON CONFLICT (store_id, network, asset) DO UPDATE SET amount = excluded.amount`
    if (totalClaimed < charged) return risen
    yield* tx.run`UPDATE channels SET unclaimed_since_ms = NULL, parked_until_ms = NULL, parked_reason = NULL
      WHERE id = ${id}`
    yield* tx.run`DELETE FROM channel_responses WHERE id = ${id}`
    return risen
  },

  *noteRefund(tx: Tx, id: ChannelId, refund: SentRefund | null): Steps<void> {
    yield* tx.run`UPDATE channels SET sent_refund_nonce = ${refund && String(refund.nonce)},
      sent_refund_amount = ${refund && String(refund.amount)} WHERE id = ${bytesOf(id)}`
  },

  *release(tx: Tx, ids: readonly ChannelId[], owner: number, next: number | null): Steps<void> {
    for (const id of ids)
      yield* tx.run`UPDATE channels SET owner = ${next} WHERE id = ${bytesOf(id)} AND owner = ${owner}`
  },

  *park(tx: Tx, id: ChannelId, untilMs: number, reason: string): Steps<void> {
    yield* tx.run`UPDATE channels SET parked_until_ms = ${untilMs}, parked_reason = ${reason}
      WHERE id = ${bytesOf(id)}`
  },
}

/** The amount is added here, because it can exceed the 64 bits of SQLite's integers. */
function* addToSums(tx: Tx, charge: ChannelCharge, part: number): Steps<void> {
  const { linkId, network, asset, amountAtomic, storeId } = charge
  const hour = Math.floor(tx.nowMs / HOUR_MS)
  const first = { link_id: linkId, hour, network, asset, part, store_id: storeId, calls: 1 }
  const added = yield* tx.run`INSERT INTO channel_sums ${row({ ...first, amount: String(amountAtomic) })}
    ON CONFLICT (link_id, hour, network, asset, part) DO NOTHING`
  if (added > 0) return
  const sum = yield* tx.one<{ amount: string }>`SELECT amount FROM channel_sums
    WHERE link_id = ${linkId} AND hour = ${hour} AND network = ${network} AND asset = ${asset} AND part = ${part}
    ${locked}`
  yield* tx.run`UPDATE channel_sums SET calls = calls + 1, amount = ${String(BigInt(sum!.amount) + amountAtomic)}
    WHERE link_id = ${linkId} AND hour = ${hour} AND network = ${network} AND asset = ${asset} AND part = ${part}`
}

interface ResponseRow {
  readonly status: number
  readonly headers: string
  readonly media_type: string
  readonly body: Uint8Array
  readonly receipt: string
}

const firstId = new Uint8Array()

export function createChannels(
  { channels }: { readonly channels: CallsOf<typeof channelWrites> },
  reads: Reads,
): Channels {
  return {
    ...channels,

    take: (id, owner) => channels.take(bytesOf(id), owner),

    async lastResponse(id): Promise<ChannelResponse | undefined> {
      const found = await reads.one<ResponseRow>`
        SELECT * FROM channel_responses WHERE id = ${bytesOf(id)} AND status > 0`
      if (found === undefined) return undefined
      const { status, headers, media_type: mediaType, body, receipt } = found
      return { status, headers: JSON.parse(headers), mediaType, body, receipt }
    },

    async unclaimed(network, after, limit): Promise<UnclaimedChannel[]> {
      const from = after === null ? firstId : bytesOf(after)
      const rows = await reads.all<ChannelRow>`SELECT c.*, k.network, k.store_id, k.payer, k.payer_authorizer,
          k.receiver, k.receiver_authorizer, k.token, k.withdraw_delay, k.salt
        FROM channels c JOIN channel_configs k ON k.id = c.id
        WHERE c.unclaimed_since_ms IS NOT NULL AND c.id > ${from} AND k.network = ${network}
        ORDER BY c.id LIMIT ${limit} + 0`
      return rows.map((one) => ({
        channel: channelOf(one),
        sinceMs: one.unclaimed_since_ms!,
        parked:
          one.parked_until_ms === null
            ? null
            : { untilMs: one.parked_until_ms, reason: one.parked_reason ?? '' },
      }))
    },

    async earnings(storeId): Promise<ChannelEarnings[]> {
      const sums = await reads.all<{ network: NetworkId; asset: string; calls: number; amount: string }>`
        SELECT network, asset, calls, amount FROM channel_sums WHERE store_id = ${storeId}`
      const claims = await reads.all<{ network: NetworkId; asset: string; amount: string }>`
        SELECT network, asset, amount FROM channel_claims WHERE store_id = ${storeId}`
      const byToken = new Map<string, ChannelEarnings>()
      const add = (network: NetworkId, asset: string, calls: number, charged: bigint, claimed: bigint) => {
        const key = `${network} ${asset.toLowerCase()}`
        const known = byToken.get(key)
        byToken.set(key, {
          network,
          asset: known?.asset ?? asset,
          calls: (known?.calls ?? 0) + calls,
          chargedAtomic: (known?.chargedAtomic ?? 0n) + charged,
          claimedAtomic: (known?.claimedAtomic ?? 0n) + claimed,
        })
      }
      for (const { network, asset, calls, amount } of sums) add(network, asset, calls, BigInt(amount), 0n)
      for (const { network, asset, amount } of claims) add(network, asset, 0, 0n, BigInt(amount))
      return [...byToken.values()]
    },
  }
}
