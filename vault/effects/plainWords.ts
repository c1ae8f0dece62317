import { formatAmount } from '../../core/domain/money.ts'
import { visibleInSentence } from '../../core/text/visibleText.ts'
import type { AssetRef, AssetTable } from './assets.ts'
import type { Decoded } from './decoded.ts'
import type { AllowanceEffect, Effect, TransferEffect } from './effect.ts'

/** Longest text of somebody else that is shown, in characters. */
export const MAX_SHOWN = 500

/**
 * A request in plain words: one sentence for each effect, then the fee. Made of amounts, addresses and quoted text only,
 * so it is safe to show anywhere as text.
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

/** An amount with its symbol; a token that is not pinned is shown by its address and in its smallest units. */
export function amountWords(asset: AssetRef, amount: bigint): string {
  return asset.symbol === null || asset.decimals === null
    ? `${amount} smallest units of the unknown token ${asset.address}`
    : `${formatAmount(amount, asset.decimals)} ${asset.symbol}`
}

function sentenceOf(effect: Effect, from: string): string {
  switch (effect.kind) {
    case 'transfer': {
      const whose = effect.from === from ? '' : ` of ${effect.from}`
      const to = effect.toOwner === undefined ? effect.to : `${effect.toOwner} (token account ${effect.to})`
      return `Send ${amountWords(effect.asset, effect.amount)}${whose} to ${to}${timeWords(effect)}.`
    }
    case 'allowance': {
      const whose = effect.owner === from ? '' : ` of ${effect.owner}`
      const permit =
        effect.submitBefore === undefined
          ? ''
          : `; by whoever submits this until ${timeOf(effect.submitBefore)}`
      if (effect.amount === 0n)
        return effect.isAdded === true
          ? `Add nothing to what ${effect.spender} may take${whose}; that stays as it is.`
          : `Take back what ${effect.spender} may take${whose}${permit}.`
      const amount = effect.isUnlimited
        ? `ALL ${effect.asset.symbol ?? effect.asset.address}, now and later`
        : `up to ${amountWords(effect.asset, effect.amount)}`
      const more = effect.isAdded === true ? ', beside what it may take already' : ''
      return `Allow ${effect.spender} to take ${amount}${whose}${more}, ${endOf(effect)}${permit}.`
    }
    case 'account': {
      const payer = effect.payer === from ? 'pay' : `${effect.payer} pays`
      const lamports = formatAmount(effect.rent, 9)
      return `Make an account of ${effect.owner} for ${effect.asset.symbol ?? effect.asset.address}; ${payer} up to ${lamports} SOL of rent.`
    }
    case 'note':
      return `Write the text ${showText(effect.text)}${effect.text.length > MAX_SHOWN ? `, the first ${MAX_SHOWN} of its ${effect.text.length} characters` : ''}.`
    case 'opaque':
      return `NOT UNDERSTOOD: ${effect.reason} (${effect.target}). It may do anything.`
  }
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

/**
 * Text from an agent or a contract inside a sentence to the owner: in quotes, with everything that has no plain look, or
 * that runs from right to left, written as its number, and cut when it is long. A cut text stands whole in a part of its own.
 */
export function showText(text: string, max: number = MAX_SHOWN): string {
  const cut = text.length > max ? `${text.slice(0, max)}…` : text
  return `“${visibleInSentence(cut)}”`
}
