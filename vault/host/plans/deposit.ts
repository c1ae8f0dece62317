import { randomBytes } from 'node:crypto'
import { ERC3009_COLLECTOR_ADDRESS } from '../../../core/domain/channelHashes.ts'
import { formatAmount } from '../../../core/domain/money.ts'
import { depositTypedData } from '../../../core/x402/channelTerms.ts'
import { budgetSpends, type Decoded } from '../../effects/effect.ts'
import { finish } from '../../effects/plainWords.ts'
import { VaultError } from '../../errors/error.ts'
import { sharedKeyRisk } from '../chainOf.ts'
import type { VaultDeps } from '../deps.ts'
import { hashOf, type Plan, type VaultCall, viewOf } from '../vaultCall.ts'
import { type ChannelRequest, decode, invalid, type OpenedChannel, sign } from './channelRequest.ts'

/** Longest validity of a signed deposit, in seconds, regardless of the seller's offer. */
const MAX_VALIDITY_SECONDS = 3_600

/** A deposit, which is judged and counted like a payment to the channel's receiver. */
export function planDeposit(x: VaultCall, parts: VaultDeps, request: ChannelRequest, asked: bigint): Plan {
  const { account, terms, config, id, receiver, total, units, known, nowSeconds } = request
  if (asked === 0n) throw invalid('deposit: Expected an amount above zero.')
  const counted = BigInt(known?.deposited ?? 0)
  // If the vault's records are older than the channel, the total continues deposits that the vault has not counted.
  const earlier = total - terms.amountAtomic
  const uncounted = total > counted + asked && earlier > counted ? earlier - counted : 0n
  const before = counted + uncounted
  if (total > before + asked)
    throw invalid(
      `voucher_total: Expected at most ${units(before + asked)}, which the deposits cover, got ${units(total)}. Send a larger deposit.`,
    )
  const unsignedAt = (seconds: number) => ({
    amount: asked,
    validAfter: 0n,
    validBefore: BigInt(seconds + Math.min(terms.maxTimeoutSeconds, MAX_VALIDITY_SECONDS)),
    salt: BigInt(`0x${randomBytes(32).toString('hex')}`),
  })
  const decodedOf = (unsigned: ReturnType<typeof unsignedAt>): Decoded =>
    asDeposit(
      decode(account, depositTypedData(terms, id, account.key.address, unsigned), parts),
      receiver,
      config.withdrawDelay,
      parts,
    )
  const decoded = decodedOf(unsignedAt(nowSeconds()))
  const [moved] = decoded.effects
  if (moved?.kind !== 'transfer' || !moved.asset.isPinned)
    throw new TypeError('Expected a deposit to be one transfer of a pinned asset.')
  const risk = sharedKeyRisk(account, decoded)
  const { asset } = moved
  const hash = hashOf('channel deposit', id, String(asked), String(uncounted))
  const words = [
    `Pay calls of ${request.host} by a payment channel, as the agent sent its offer.`,
    ...stable(decoded, moved.validBefore!),
    ...(uncounted === 0n
      ? []
      : [
          `The vault has no record of earlier deposits into this channel. It signs vouchers up to a total of ${units(before + asked)}, which take these deposits too.`,
        ]),
  ]
  x.found = words.join(' ')
  return {
    ...request.common,
    amount: formatAmount(asked, terms.asset.decimals),
    plainWords: words,
    warnings: [...risk.warnings, ...decoded.warnings],
    view: viewOf(decoded),
    requestHash: hashOf('channel deposit', id, String(asked), String(total)),
    frozenHash: hash,
    spends: budgetSpends(decoded),
    judged: { decoded, proof: { ok: true, asset: asset as never, amount: asked } },
    reasons:
      uncounted === 0n
        ? risk.reasons
        : [...risk.reasons, 'The channel has earlier deposits of which the vault has no record.'],
    act: async (attempt) => {
      if ((x.approval?.frozenHash ?? hash) !== hash)
        throw new VaultError('APPROVAL_RESOLVED', 'Expected the deposit that was approved, got another one.')
      const unsigned = unsignedAt(nowSeconds())
      const signature = await sign(`${attempt}_deposit`, account, decodedOf(unsigned), parts)
      // Signed before the deposit is stored, because a failure releases the money of a deposit that was not.
      const response = await request.signVoucher(attempt, { ...unsigned, signature })
      // Two requests that were planned at the same time must not both add a deposit, and only one agent gets the channel.
      if (request.versionNow() !== request.version)
        throw new VaultError(
          'VERSION_CONFLICT',
          'Another deposit into this channel was signed meanwhile. Send the request again.',
        )
      const approvalId = x.approval?.id ?? null
      // An earlier deposit of this approval was stored, but did not leave the vault.
      const isAgain = approvalId !== null && approvalId === known?.approvalId
      const record: OpenedChannel = {
        agentId: x.caller.id,
        deposited: String(isAgain ? before : before + asked),
        approvalId,
        deposit: {
          amount: String(asked),
          validAfter: '0',
          validBefore: String(unsigned.validBefore),
          salt: String(unsigned.salt),
          signature,
          total: String(total),
        },
      }
      await parts.vault.records.putJson('state', request.key, record)
      return response
    },
  }
}

/**
 * The deposit as a transfer to the channel's receiver, which can take it by vouchers. The collector's contract only moves it into the
 * channel, and the authorization's nonce binds it to this channel.
 */
function asDeposit(
  decoded: Decoded,
  receiver: string,
  withdrawDelaySeconds: number,
  { assets }: VaultDeps,
): Decoded {
  const [effect, ...others] = decoded.effects
  if (
    effect?.kind !== 'transfer' ||
    others.length > 0 ||
    effect.to.toLowerCase() !== ERC3009_COLLECTOR_ADDRESS
  )
    throw new TypeError('Expected a deposit to be one transfer to the collector.')
  return finish(assets, {
    ...decoded,
    kind: 'payment',
    effects: [{ ...effect, to: receiver, withdrawDelaySeconds }],
  })
}

/** The sentences without the time, because the deposit is built again after an approval. */
const stable = ({ plainWords }: Decoded, validBefore: bigint): readonly string[] => {
  const time = new Date(Number(validBefore) * 1_000).toISOString()
  return plainWords.map((text) => text.replace(`, submitted by any account until ${time}`, ''))
}
