import { formatAmount } from '../../core/domain/money.ts'
import { visibleInSentence } from '../../core/text/visibleText.ts'
import { type AssetRef, type AssetTable, mayBeNft, pinnedAssets } from './assets.ts'
import {
  type AllowanceEffect,
  type Decoded,
  type Effect,
  goesTo,
  mayAllowNft,
  type TransferEffect,
} from './effect.ts'

/**
 * Completes what a chain plugin decoded. An opaque or unknown part makes the whole request opaque, the sentences are added, and
 * the result is frozen. Byte arrays cannot be frozen, so the result has copies of them, to which no other code has a reference.
 */
export function finish(assets: AssetTable, draft: Omit<Decoded, 'isOpaque' | 'plainWords'>): Decoded {
  const isOpaque = draft.effects.some(
    (effect) => effect.kind === 'opaque' || (effect.kind !== 'note' && !effect.asset.isPinned),
  )
  return Object.freeze({
    ...draft,
    effects: Object.freeze(draft.effects.map((effect) => Object.freeze({ ...effect }))),
    fee: Object.freeze({ ...draft.fee }),
    warnings: Object.freeze([...draft.warnings]),
    isOpaque,
    plainWords: Object.freeze(plainWords(draft, assets)),
    frozenBytes: Uint8Array.from(draft.frozenBytes),
    signingBytes: Uint8Array.from(draft.signingBytes),
  })
}

/** Maximum length of an agent's text that an error message repeats, in characters. */
const MAX_SHOWN = 500

/**
 * A request in plain words: one sentence for each effect, then the fee. The sentences contain only amounts and addresses. Texts
 * of agents and sellers are separate parts, to which the sentences refer.
 */
export function plainWords(
  decoded: Pick<Decoded, 'chain' | 'effects' | 'fee' | 'from'>,
  { chains }: AssetTable,
): string[] {
  const { title } = chains.of(decoded.chain)
  const sentences = decoded.effects.flatMap((effect) => [
    `${sentenceOf(effect, decoded.from)} (${title})`,
    ...depositWords(effect),
  ])
  const { fee } = decoded
  if (fee.amount === 0n) return sentences
  const payer = fee.payer === decoded.from ? 'Pay' : `${fee.payer} pays`
  return [...sentences, `${payer} up to ${amountWords(fee.asset, fee.amount)} to the network.`]
}

/** An amount with its symbol. A token that is not pinned is shown by its address and in its smallest units, or as an NFT. */
export function amountWords(asset: AssetRef, amount: bigint): string {
  if (asset.symbol !== null && asset.decimals !== null)
    return `${formatAmount(amount, asset.decimals)} ${asset.symbol}`
  const units = mayBeNft(asset) ? `smallest units, or NFT number ${amount},` : 'smallest units'
  return `${amount} ${units} of ${assetWords(asset)}`
}

const assetWords = (asset: AssetRef): string =>
  asset.symbol ?? `the unknown ${mayBeNft(asset) ? 'contract' : 'token'} ${asset.address}`

function sentenceOf(effect: Effect, from: string): string {
  switch (effect.kind) {
    case 'transfer': {
      const owner = effect.from === from ? '' : ` of ${effect.from}`
      const to = effect.toOwner === undefined ? effect.to : `${effect.toOwner} (token account ${effect.to})`
      if (effect.withdrawDelaySeconds !== undefined)
        return `Deposit ${amountWords(effect.asset, effect.amount)} into a payment channel to ${to}${timeWords(effect)}.`
      const most = effect.isMost === true ? 'at most ' : ''
      return `Send ${most}${amountWords(effect.asset, effect.amount)}${owner} to ${to}${timeWords(effect)}.`
    }
    case 'allowance':
      return allowanceWords(effect, from)
    case 'account': {
      const payer = effect.payer === from ? 'pay' : `${effect.payer} pays`
      const lamports = formatAmount(effect.rent, 9)
      return `Create an account of ${effect.owner} for ${effect.asset.symbol ?? effect.asset.address}; ${payer} up to ${lamports} SOL of rent.`
    }
    case 'note':
      return `Write a text of ${countOf(effect.text)}.`
    case 'opaque':
      return `NOT DECODED: ${effect.reason} (${effect.target}). This part may do anything.`
  }
}

/** How a deposit into a payment channel is spent, and how the rest comes back. Empty for other effects. */
function depositWords(effect: Effect): string[] {
  if (effect.kind !== 'transfer' || effect.withdrawDelaySeconds === undefined) return []
  return [
    `${effect.to} can take the deposit by vouchers of this account, which the vault then signs for the agent without asking.`,
    `What is left comes back if the seller refunds it, which the agent can request, or without the seller at the latest ${spanOf(effect.withdrawDelaySeconds)} after a withdrawal.`,
  ]
}

/** A duration in words, rounded up. */
function spanOf(seconds: number): string {
  const [size, unit] =
    seconds < 3_600 ? [60, 'minute'] : seconds <= 172_800 ? [3_600, 'hour'] : [86_400, 'day']
  const count = Math.ceil((seconds / size) * 10) / 10
  return `${count} ${unit}${count === 1 ? '' : 's'}`
}

function allowanceWords(effect: AllowanceEffect, from: string): string {
  const { asset, amount, spender, isAdded = false, submitBefore } = effect
  const what = assetWords(asset)
  const owner = effect.owner === from ? '' : ` of ${effect.owner}`
  const permit =
    submitBefore === undefined ? '' : `; any account can submit this until ${timeOf(submitBefore)}`
  if (amount === 0n && isAdded)
    return `Add 0 to what ${spender} may take of ${what}${owner}. The allowance stays unchanged.`
  const isNft = mayAllowNft(effect)
  if (amount === 0n) {
    const first = isNft ? ', or allow it to take NFT number 0' : ''
    return `Revoke what ${spender} may take of ${what}${owner}${first}${permit}.`
  }
  // ERC-721 revokes the right to an NFT by approving the zero address.
  if (isNft && /^0x0{40}$/.test(spender))
    return `Revoke the right to take NFT number ${amount} of ${what}${owner}, if it is an NFT contract.`
  const all = `ALL ${asset.symbol ?? `of ${what}`}, now and later${isNft ? `, or its NFT number ${amount}` : ''}`
  const taken = effect.isUnlimited ? all : `up to ${amountWords(asset, amount)}`
  const more = isAdded ? ', in addition to what it may already take' : ''
  return `Allow ${spender} to take ${taken}${owner}${more}, ${endOf(effect)}${permit}.`
}

/** When a signed authorization can be used, as a part of a sentence. Empty for a transaction. */
export function timeWords({ validBefore, validAfter = 0n, submitter }: TransferEffect): string {
  if (validBefore === undefined) return ''
  const from = validAfter === 0n ? '' : `, not before ${timeOf(validAfter)}`
  return `, submitted by ${submitter ?? 'any account'} until ${timeOf(validBefore)}${from}`
}

function endOf({ expiresAt }: AllowanceEffect): string {
  if (expiresAt === undefined) return 'without an expiry'
  return expiresAt === 0n ? 'only within the block that includes it' : `until ${timeOf(expiresAt)}`
}

/** Seconds since 1970 as ISO 8601, or words where they exceed the range of dates. */
function timeOf(seconds: bigint): string {
  return seconds > 253_402_300_799n ? 'the end of time' : new Date(Number(seconds) * 1_000).toISOString()
}

/** The size of a text, as a part of a sentence. The text itself is shown as a separate part. */
export function countOf(text: string): string {
  const lines = text.split('\n').length
  const characters = `${text.length.toLocaleString('en')} ${text.length === 1 ? 'character' : 'characters'}`
  return lines === 1 ? characters : `${characters} in ${lines.toLocaleString('en')} lines`
}

/**
 * The host of a URL, for a sentence. Undefined if it could be mistaken for something other than a host name. A host name is the
 * only text of a seller or an agent that a sentence to the owner contains.
 */
export function hostOf(url: string): string | undefined {
  const host = URL.parse(url)?.host ?? ''
  return isPlainHost(host) ? host : undefined
}

/** Whether a text is a host name in ASCII letters, with or without a port. */
export const isPlainHost = (text: string): boolean =>
  text.length <= 253 &&
  (/^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?::\d{1,5})?$/i.test(text) ||
    /^\[[0-9a-f:.]+\](?::\d{1,5})?$/i.test(text))

/**
 * An agent's text, for an error message to that agent or for the log's field with the agent's claim. It is never used in a
 * sentence to the owner. It is in quotes that the text itself cannot close. Invisible and right-to-left characters are written
 * as their code points, and a long text is cut.
 */
export function showText(text: string, max: number = MAX_SHOWN): string {
  const cut = text.length > max ? `${text.slice(0, max)}…` : text
  const visible = visibleInSentence(cut).replace(
    quotes,
    (quote) => `\\u{${quote.codePointAt(0)!.toString(16)}}`,
  )
  return `“${visible}”`
}

/** Characters that look like a quotation mark. */
const quotes = /["“”„‟«»〝〞〟＂″‶]/g

/** An error message for the log, without the quoted text of the agent. */
export const withoutQuoted = (message: string): string => message.replace(/[“"].*[”"]/su, 'what it sent')

/**
 * Adds to each transfer the wallet that receives it, if one of the given wallets is proved to own the token account. On Solana
 * a transfer names only a token account, which neither a limit nor the owner would recognize. It changes sentences and
 * `toOwner`, never bytes.
 *
 * @param wallets addresses that the owner would recognize, from the claim, the rules and the limits
 */
export function nameRecipients(
  decoded: Decoded,
  wallets: Iterable<string>,
  assets: AssetTable = pinnedAssets,
): Decoded {
  const known = new Set(wallets)
  let isChanged = false
  const effects = decoded.effects.map((effect) => {
    if (effect.kind !== 'transfer' || effect.toOwner !== undefined) return effect
    const owner = [...known].find((wallet) => wallet !== effect.to && goesTo(effect, wallet, assets))
    // On EVM the address is the wallet itself.
    if (owner === undefined || effect.to.startsWith('0x')) return effect
    isChanged = true
    return { ...effect, toOwner: owner }
  })
  return isChanged ? finish(assets, { ...decoded, effects }) : decoded
}
