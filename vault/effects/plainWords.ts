import { formatAmount } from '../../core/domain/money.ts'
import { visibleInSentence } from '../../core/text/visibleText.ts'
import { type AssetRef, type AssetTable, mayBeNft } from './assets.ts'
import type { Decoded } from './decoded.ts'
import { type AllowanceEffect, type Effect, mayAllowNft, type TransferEffect } from './effect.ts'

/** Longest text of an agent that an error message to it repeats, in characters. */
const MAX_SHOWN = 500

/**
 * A request in plain words: one sentence for each effect, then the fee. Made of amounts and addresses only: texts of agents and
 * sellers stand in parts of their own, which the sentences name.
 */
export function plainWords(
  decoded: Pick<Decoded, 'chain' | 'effects' | 'fee' | 'from'>,
  { chains }: AssetTable,
): string[] {
  const { title } = chains.of(decoded.chain)
  const sentences = decoded.effects.map((effect) => `${sentenceOf(effect, decoded.from)} (${title})`)
  const { fee } = decoded
  if (fee.amount === 0n) return sentences
  const payer = fee.payer === decoded.from ? 'Pay' : `${fee.payer} pays`
  return [...sentences, `${payer} up to ${amountWords(fee.asset, fee.amount)} to the network.`]
}

/** An amount with its symbol; a token that is not pinned is shown by its address and in its smallest units, or as an NFT. */
export function amountWords(asset: AssetRef, amount: bigint): string {
  if (asset.symbol !== null && asset.decimals !== null)
    return `${formatAmount(amount, asset.decimals)} ${asset.symbol}`
  const units = mayBeNft(asset) ? `smallest units, or the NFT number ${amount},` : 'smallest units'
  return `${amount} ${units} of ${assetWords(asset)}`
}

const assetWords = (asset: AssetRef): string =>
  asset.symbol ?? `the unknown ${mayBeNft(asset) ? 'contract' : 'token'} ${asset.address}`

function sentenceOf(effect: Effect, from: string): string {
  switch (effect.kind) {
    case 'transfer': {
      const whose = effect.from === from ? '' : ` of ${effect.from}`
      const to = effect.toOwner === undefined ? effect.to : `${effect.toOwner} (token account ${effect.to})`
      return `Send ${amountWords(effect.asset, effect.amount)}${whose} to ${to}${timeWords(effect)}.`
    }
    case 'allowance':
      return allowanceWords(effect, from)
    case 'account': {
      const payer = effect.payer === from ? 'pay' : `${effect.payer} pays`
      const lamports = formatAmount(effect.rent, 9)
      return `Make an account of ${effect.owner} for ${effect.asset.symbol ?? effect.asset.address}; ${payer} up to ${lamports} SOL of rent.`
    }
    case 'note':
      return `Write a text of ${countOf(effect.text)}.`
    case 'opaque':
      return `NOT UNDERSTOOD: ${effect.reason} (${effect.target}). It may do anything.`
  }
}

function allowanceWords(effect: AllowanceEffect, from: string): string {
  const { asset, amount, spender, isAdded = false, submitBefore } = effect
  const what = assetWords(asset)
  const whose = effect.owner === from ? '' : ` of ${effect.owner}`
  const permit = submitBefore === undefined ? '' : `; by whoever submits this until ${timeOf(submitBefore)}`
  if (amount === 0n && isAdded)
    return `Add nothing to what ${spender} may take of ${what}${whose}; that stays as it is.`
  const isNft = mayAllowNft(effect)
  if (amount === 0n) {
    const first = isNft ? ', or allow it to take the NFT number 0' : ''
    return `Take back what ${spender} may take of ${what}${whose}${first}${permit}.`
  }
  // ERC-721 takes the right to an NFT back by giving it to no account.
  if (isNft && /^0x0{40}$/.test(spender))
    return `Take back the right to take the NFT number ${amount} of ${what}${whose}, if it has NFTs.`
  const all = `ALL ${asset.symbol ?? `of ${what}`}, now and later${isNft ? `, or its NFT number ${amount}` : ''}`
  const taken = effect.isUnlimited ? all : `up to ${amountWords(asset, amount)}`
  const more = isAdded ? ', beside what it may take already' : ''
  return `Allow ${spender} to take ${taken}${whose}${more}, ${endOf(effect)}${permit}.`
}

/** When a signed authorisation can be used, as a part of a sentence; empty for a transaction. */
export function timeWords({ validBefore, validAfter = 0n }: TransferEffect): string {
  if (validBefore === undefined) return ''
  const from = validAfter === 0n ? '' : `, not before ${timeOf(validAfter)}`
  return `, by anyone until ${timeOf(validBefore)}${from}`
}

function endOf({ expiresAt }: AllowanceEffect): string {
  if (expiresAt === undefined) return 'without an end'
  return expiresAt === 0n ? 'only in the block in which it begins' : `until ${timeOf(expiresAt)}`
}

/** Seconds since 1970 as ISO 8601, or words where they are beyond what a date can say. */
function timeOf(seconds: bigint): string {
  return seconds > 253_402_300_799n ? 'the end of time' : new Date(Number(seconds) * 1_000).toISOString()
}

/** The size of a text that stands in a part of its own, as a part of a sentence. */
export function countOf(text: string): string {
  const lines = text.split('\n').length
  const characters = `${text.length.toLocaleString('en')} ${text.length === 1 ? 'character' : 'characters'}`
  return lines === 1 ? characters : `${characters} in ${lines.toLocaleString('en')} lines`
}

/**
 * The host of an address, as a part of a sentence; undefined where it could be read as anything but a host name. A host name is
 * all that a sentence to the owner takes over of a seller's or an agent's text.
 */
export function hostOf(url: string): string | undefined {
  const host = URL.parse(url)?.host ?? ''
  return isPlainHost(host) ? host : undefined
}

/** Whether a text is a host name, with its port or without, in letters of ASCII. */
export const isPlainHost = (text: string): boolean =>
  text.length <= 253 &&
  (/^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?::\d{1,5})?$/i.test(text) ||
    /^\[[0-9a-f:.]+\](?::\d{1,5})?$/i.test(text))

/**
 * An agent's text in an error message to that agent, or in the log's field for the agent's claim: in quotes that it can't close,
 * with everything that has no plain look, or that runs from right to left, written as its number, and cut when it is long.
 * Never in a sentence to the owner.
 */
export function showText(text: string, max: number = MAX_SHOWN): string {
  const cut = text.length > max ? `${text.slice(0, max)}…` : text
  const visible = visibleInSentence(cut).replace(
    quotes,
    (quote) => `\\u{${quote.codePointAt(0)!.toString(16)}}`,
  )
  return `“${visible}”`
}

/** What has the look of a quotation mark. */
const quotes = /["“”„‟«»〝〞〟＂″‶]/g

/** An error message as the owner may read it in the log: without the text that it repeats to the agent. */
export const withoutQuoted = (message: string): string => message.replace(/[“"].*[”"]/su, 'what it sent')
