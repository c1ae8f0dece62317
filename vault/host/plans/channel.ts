import { randomBytes } from 'node:crypto'
import { ChannelHashes, ERC3009_COLLECTOR_ADDRESS } from '../../../core/domain/channelHashes.ts'
import { formatAmount } from '../../../core/domain/money.ts'
import type { NetworkId } from '../../../core/domain/network.ts'
import { checksumAddress } from '../../../core/evm/hex.ts'
import type { DepositAuthorization } from '../../../core/x402/channelPayment.ts'
import {
  channelConfigOf,
  channelPayload,
  depositTypedData,
  voucherTypedData,
} from '../../../core/x402/channelTerms.ts'
import { readEnvelope } from '../../../core/x402/envelope.ts'
import { encodeHeader } from '../../../core/x402/header.ts'
import { chooseEntry } from '../../../core/x402/offerTerms.ts'
import type { ApprovalRecord } from '../../approvals/approval.ts'
import type { PartDraft } from '../../approvals/shownPart.ts'
import { offerOf, payableAssets } from '../../effects/buildPayment.ts'
import { budgetSpends, type Decoded } from '../../effects/effect.ts'
import { finish, hostOf } from '../../effects/plainWords.ts'
import { claimedAmount } from '../../effects/proveClaim.ts'
import { VaultError } from '../../errors/error.ts'
import { paymentRequest } from '../../requests/agentRequests.ts'
import { objectIn } from '../../requests/request.ts'
import { accountOn, type ChainAccount, keyOn, sharedKeyRisk } from '../chainOf.ts'
import type { VaultDeps } from '../deps.ts'
import { hashOf, type Plan, type VaultCall, viewOf } from '../vaultCall.ts'
import { networksFor, offerPart } from './offerParts.ts'

/** Longest validity of a signed deposit, in seconds, regardless of the seller's offer. */
const MAX_VALIDITY_SECONDS = 3_600

/** A channel into which the vault has signed deposits, as the vault's records have it. Amounts are in atomic units, as digits. */
interface OpenedChannel {
  readonly agentId: string
  /** Sum of the signed deposits, which limits the vouchers. */
  readonly deposited: string
  /** The newest deposit and its voucher's total. The same request gets it again as long as it can land. */
  readonly deposit: StoredDeposit & { readonly total: string }
  /** The approval of that deposit. Null if the rules allowed it. */
  readonly approvalId: string | null
}

type StoredDeposit = Readonly<Record<keyof DepositAuthorization, string>>

/**
 * `POST /v1/vault/sign-payment` with `voucher_total`, and with `deposit` for a deposit → `{payment_header}`.
 *
 * A deposit is judged and counted like a payment to the channel's receiver. A voucher of a channel whose deposit this agent got is
 * signed without asking, up to the deposits, which the budget has counted in full.
 */
export function planChannel(x: VaultCall, parts: VaultDeps): Plan {
  const input = paymentRequest.check(x.input)
  const { payment_required: given, network } = input
  const isHeader = typeof given === 'string' && !given.trimStart().startsWith('{')
  const paymentRequired = isHeader ? given : objectIn('payment_required', given)
  const url = input.url === undefined ? undefined : URL.parse(input.url)
  if (url === null) throw invalid('url: Expected an absolute address.')
  const offer = offerOf(paymentRequired)
  if (typeof offer === 'string') throw invalid(offer)
  const envelope = readEnvelope(offer, url)
  if (!envelope.ok) throw invalid(`The offer cannot be paid: ${envelope.message}.`)
  const { accepts, resource } = envelope.offer
  const plugin = parts.chains.find(({ family }) => family === 'eip155')
  const networks = networksFor(x, parts)
  const addressOn = (id: string) =>
    keyOn(parts.vault, parts.assets.chains.ofNetwork(id as NetworkId)!).address
  const wallets =
    plugin === undefined
      ? {}
      : {
          eip155: {
            networks,
            objectTo: (terms: Parameters<typeof plugin.termsFault>[0]) =>
              plugin.termsFault(terms, addressOn(terms.asset.network)),
          },
        }
  const choice = chooseEntry(accepts, wallets, {
    only: network as NetworkId | undefined,
    byChannel: true,
    assets: payableAssets(parts.assets),
  })
  if (!choice.ok) throw invalid(`The offer cannot be paid: ${choice.message}.`)
  const { terms, entry } = choice.chosen
  const { decimals, symbol } = terms.asset
  const atomic = (name: string, value: unknown): bigint => {
    const read = claimedAmount(value, decimals)
    if (!read.ok) throw invalid(`In ${name}. ${read.message}`)
    return read.atomic
  }
  const units = (amount: bigint) => `${formatAmount(amount, decimals)} ${symbol}`
  if (terms.amountAtomic > atomic('max_amount', input.max_amount))
    throw new VaultError(
      'BUDGET_EXCEEDED_TX',
      `The price of ${units(terms.amountAtomic)} is above max_amount.`,
    )
  const account = accountOn(parts, parts.assets.chains.ofNetwork(terms.asset.network)!.name)
  const config = channelConfigOf(terms, account.key.address)
  const chainId = Number(account.facts.chainId)
  const id = new ChannelHashes(chainId).channelId(config)
  const total = atomic('voucher_total', input.voucher_total)
  const receiver = checksumAddress(config.receiver)
  const { records } = parts.vault
  const key = `channel_${chainId}_${id.slice(2)}`
  const known = records.getJson<OpenedChannel>('state', key)
  const versionNow = () => records.info('state', key)?.version
  const version = versionNow()
  if (known !== undefined && known.agentId !== x.caller.id)
    throw new VaultError('SCOPE_DENIED', 'Expected a channel of this agent, got one of another agent.')
  const typed = (typedData: unknown) => decode(account, typedData, parts)
  const header = (payload: object) => encodeHeader({ x402Version: 2, payload, resource, accepted: entry })
  const signVoucher = async (attempt: string, deposit: DepositAuthorization | null) => {
    const signature = await sign(
      attempt,
      account,
      typed(voucherTypedData(terms.asset.network, id, total)),
      parts,
    )
    const voucher = { channelId: id, maxClaimable: total, signature }
    const payload = channelPayload(deposit === null ? 'voucher' : 'deposit', config, voucher, deposit)
    return { status: 200, body: { payment_header: header(payload) } }
  }
  const common = {
    action: 'SIGN',
    kind: 'deposit',
    parts: (): PartDraft[] => [
      { title: 'Paid for', content: String(resource['url']), by: 'seller' },
      offerPart(paymentRequired),
    ],
    scope: `wallet.${account.facts.name}`,
    verb: 'sign',
    chain: account.facts.name,
    currency: symbol,
    recipient: receiver,
    isOpaque: false,
    frozen: null,
    repeat: 'new',
  } as const
  const asked = input.deposit === undefined ? null : atomic('deposit', input.deposit)
  const open = known === undefined ? null : depositOf(known.deposit)
  const nowSeconds = () => Math.floor(parts.clock.now() / 1_000)
  const isOpen = (one: DepositAuthorization) => one.validBefore > BigInt(nowSeconds())
  // A stored deposit leaves the vault once its approval is consumed. If the approval expires instead, its money is released.
  const hasLeft = ({ approvalId }: OpenedChannel) =>
    approvalId === null || records.getJson<ApprovalRecord>('approval', approvalId)?.state === 'consumed'
  const isSame =
    open !== null &&
    isOpen(open) &&
    open.amount === asked &&
    String(total) === known!.deposit.total &&
    hasLeft(known!)

  if (asked === null || isSame) {
    if (known === undefined)
      throw new VaultError(
        'SCOPE_DENIED',
        'Expected a channel whose deposit the vault has signed, got another one. Send deposit first.',
      )
    if (total > BigInt(known.deposited))
      throw new VaultError(
        'BUDGET_EXCEEDED_TX',
        `Expected a voucher of at most ${units(BigInt(known.deposited))}, which the deposits allow, got ${units(total)}.`,
      )
    const words = `Sign a voucher over a total of ${units(total)} of the payment channel to ${receiver}.`
    x.found = words
    const hash = hashOf('channel voucher', id, String(total), asked === null ? null : String(asked))
    return {
      ...common,
      kind: 'payment',
      amount: formatAmount(total, decimals),
      plainWords: [words],
      warnings: [],
      view: null,
      requestHash: hash,
      frozenHash: hash,
      spends: [],
      reasons: [],
      act: (attempt) => signVoucher(attempt, isSame ? open : null),
    }
  }

  if (asked === 0n) throw invalid('deposit: Expected an amount above zero.')
  // If the vault's records are older than the channel, the total continues deposits that the vault has not counted.
  const earlier = total - terms.amountAtomic
  const uncounted = known === undefined && total > asked && earlier > 0n ? earlier : 0n
  const before = uncounted + BigInt(known?.deposited ?? 0)
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
      typed(depositTypedData(terms, id, account.key.address, unsigned)),
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
    `Pay calls of ${hostOf(String(resource['url'])) ?? 'a server'} by a payment channel, as the agent sent its offer.`,
    ...stable(decoded, moved.validBefore!),
    ...(uncounted === 0n
      ? []
      : [
          `The vault has no record of this channel. It signs vouchers up to a total of ${units(before + asked)}, which take earlier deposits too.`,
        ]),
  ]
  x.found = words.join(' ')
  return {
    ...common,
    amount: formatAmount(asked, decimals),
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
      const response = await signVoucher(attempt, { ...unsigned, signature })
      // Two requests that were planned at the same time must not both add a deposit, and only one agent gets the channel.
      if (versionNow() !== version)
        throw new VaultError(
          'VERSION_CONFLICT',
          'Another deposit into this channel was signed meanwhile. Send the request again.',
        )
      const approvalId = x.approval?.id ?? null
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
      await records.putJson('state', key, record)
      return response
    },
  }
}

const invalid = (message: string): VaultError => new VaultError('VALIDATION_ERROR', message)

const depositOf = ({ amount, validAfter, validBefore, salt, signature }: StoredDeposit) => ({
  amount: BigInt(amount),
  validAfter: BigInt(validAfter),
  validBefore: BigInt(validBefore),
  salt: BigInt(salt),
  signature,
})

function decode({ plugin, facts, key }: ChainAccount, typedData: unknown, { assets }: VaultDeps): Decoded {
  const read = plugin.decodeTypedData!({ chain: facts.name, account: key.address, assets, typedData })
  if (!read.ok) throw new VaultError(read.code, `${read.message} Nothing was signed.`)
  return read.decoded
}

/** @returns the signature, 65 bytes in hex */
async function sign(attempt: string, account: ChainAccount, decoded: Decoded, { vault }: VaultDeps) {
  const signature = await vault.signer.sign({
    requestId: attempt,
    keyId: account.key.keyId,
    kind: decoded.signKind,
    bytes: decoded.signingBytes,
  })
  return account.plugin.assemble(decoded, signature.bytes).signature
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
