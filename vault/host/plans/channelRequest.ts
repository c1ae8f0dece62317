import { ChannelHashes } from '../../../core/domain/channelHashes.ts'
import { formatAmount } from '../../../core/domain/money.ts'
import type { NetworkId } from '../../../core/domain/network.ts'
import { checksumAddress } from '../../../core/evm/hex.ts'
import type { DepositAuthorization, Erc3009Deposit } from '../../../core/x402/channelPayment.ts'
import { channelConfigOf, channelPayload, voucherTypedData } from '../../../core/x402/channelTerms.ts'
import { readEnvelope } from '../../../core/x402/envelope.ts'
import { encodeHeader } from '../../../core/x402/header.ts'
import { chooseEntry } from '../../../core/x402/offerTerms.ts'
import type { PartDraft } from '../../approvals/shownPart.ts'
import { offerOf, payableAssets } from '../../effects/buildPayment.ts'
import type { Decoded } from '../../effects/effect.ts'
import { hostOf } from '../../effects/plainWords.ts'
import { claimedAmount } from '../../effects/proveClaim.ts'
import { VaultError } from '../../errors/error.ts'
import { paymentRequest } from '../../requests/agentRequests.ts'
import { objectIn } from '../../requests/request.ts'
import { accountOn, type ChainAccount, keyOn } from '../chainOf.ts'
import type { VaultDeps } from '../deps.ts'
import type { VaultCall } from '../vaultCall.ts'
import { networksFor, offerPart } from './offerParts.ts'

/** A channel into which the vault has signed deposits, as the vault's records have it. Amounts are in atomic units, as digits. */
export interface OpenedChannel {
  readonly agentId: string
  /** Sum of the signed deposits, which limits the vouchers. */
  readonly deposited: string
  /** The newest deposit and its voucher's total. The same request gets it again as long as it can land. */
  readonly deposit: StoredDeposit & { readonly total: string }
  /** The approval of that deposit. Null if the rules allowed it. */
  readonly approvalId: string | null
}

export type StoredDeposit = Readonly<Record<keyof Erc3009Deposit, string>>

/** A request to pay by a payment channel, checked against its offer and the vault's record of the channel. */
export type ChannelRequest = ReturnType<typeof readChannelRequest>

/** @throws `VALIDATION_ERROR`, `BUDGET_EXCEEDED_TX`, or `SCOPE_DENIED` for a channel of another agent */
export function readChannelRequest(x: VaultCall, parts: VaultDeps) {
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
  if (terms.permit2 !== undefined)
    throw invalid(
      'Expected an offer with deposits by ERC-3009, got one with deposits by Permit2, which the vault does not sign. Nothing was signed. Pay by an entry of scheme exact.',
    )
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
  const header = (payload: object) => encodeHeader({ x402Version: 2, payload, resource, accepted: entry })
  const signVoucher = async (attempt: string, deposit: DepositAuthorization | null) => {
    const signature = await sign(
      attempt,
      account,
      decode(account, voucherTypedData(terms.asset.network, id, total), parts),
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
  return {
    account,
    terms,
    config,
    id,
    receiver,
    host: hostOf(String(resource['url'])) ?? 'a server',
    total,
    asked,
    units,
    key,
    known,
    versionNow,
    version,
    nowSeconds: () => Math.floor(parts.clock.now() / 1_000),
    signVoucher,
    common,
  }
}

export const invalid = (message: string): VaultError => new VaultError('VALIDATION_ERROR', message)

export function decode(
  { plugin, facts, key }: ChainAccount,
  typedData: unknown,
  { assets }: VaultDeps,
): Decoded {
  const read = plugin.decodeTypedData!({ chain: facts.name, account: key.address, assets, typedData })
  if (!read.ok) throw new VaultError(read.code, `${read.message} Nothing was signed.`)
  return read.decoded
}

/** @returns the signature, 65 bytes in hex */
export async function sign(attempt: string, account: ChainAccount, decoded: Decoded, { vault }: VaultDeps) {
  const signature = await vault.signer.sign({
    requestId: attempt,
    keyId: account.key.keyId,
    kind: decoded.signKind,
    bytes: decoded.signingBytes,
  })
  return account.plugin.assemble(decoded, signature.bytes).signature
}
