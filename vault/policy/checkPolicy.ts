import { nearMiss } from '../../core/config/check/nearMiss.ts'
import { canonicalAddress } from '../../core/domain/address.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import type { AssetTable } from '../effects/assets.ts'
import { feeLimitsOf, limitsOf, type Policy } from './policy.ts'

const choices: Readonly<Record<string, readonly unknown[]>> = {
  otherRecipients: ['ask', 'deny', undefined],
  allowances: ['auto', 'ask', 'deny', undefined],
  opaque: ['ask', 'deny', undefined],
  messages: ['auto', 'ask', 'deny', undefined],
}
const known = ['assets', 'fees', 'recipients', 'hours', 'deposits', ...Object.keys(choices)]

/**
 * Validates an owner's policy before it is stored. It must have only known fields, pinned assets, canonical addresses, amounts
 * in order and an existing time zone. After that, {@link import('./evaluate.ts').evaluate} cannot fail on it.
 *
 * @returns the policy, or what is wrong with it in words
 */
export function checkPolicy(
  value: unknown,
  assets: AssetTable,
): { readonly ok: true; readonly policy: Policy } | { readonly ok: false; readonly message: string } {
  const message = findProblem(value, assets)
  return message === undefined ? { ok: true, policy: value as Policy } : { ok: false, message }
}

function findProblem(value: unknown, assets: AssetTable): string | undefined {
  if (!isObject(value)) return 'Expected the policy as an object.'
  const unknown = Object.keys(value).find((key) => !known.includes(key))
  if (unknown !== undefined)
    return `Expected ${known.join(', ')}; got ${quoted(unknown)}.${hint(unknown, known)}`
  for (const [name, allowed] of Object.entries(choices)) {
    if (!allowed.includes(value[name]))
      return `Expected ${name} to be one of ${allowed.filter(Boolean).join(', ')}.`
  }
  return (
    checkRecipients(value['recipients'], assets) ??
    checkDeposits(value['deposits']) ??
    checkHours(value['hours']) ??
    checkAmounts(value, assets)
  )
}

function checkRecipients(value: unknown, { chains }: AssetTable): string | undefined {
  if (value === 'any') return undefined
  const isGood =
    Array.isArray(value) &&
    value.every((entry) => {
      if (!isObject(entry) || !hasOnly(entry, ['chain', 'address'])) return false
      const chain = chains.named(entry['chain'])
      const { address } = entry
      return (
        chain !== undefined &&
        typeof address === 'string' &&
        canonicalAddress(chain.family, address) === address
      )
    })
  return isGood
    ? undefined
    : 'Expected recipients to be "any" or a list of {chain, address}, EVM addresses with their checksum.'
}

/** The limit may have at most as many decimals as every pinned token of a channel, so that the rule can be applied to each of them. */
function checkDeposits(value: unknown): string | undefined {
  if (value === undefined || value === 'ask' || value === 'deny') return undefined
  const isRule =
    isObject(value) &&
    hasOnly(value, ['autoApproveUpTo', 'maxHours']) &&
    typeof value['autoApproveUpTo'] === 'string' &&
    /^\d{1,12}(?:\.\d{1,6})?$/.test(value['autoApproveUpTo']) &&
    Number.isInteger(value['maxHours']) &&
    (value['maxHours'] as number) > 0 &&
    (value['maxHours'] as number) <= 720
  return isRule
    ? undefined
    : 'Expected deposits to be ask, deny or {autoApproveUpTo, maxHours}, with an amount of at most 6 decimals in quotes and 1 to 720 hours.'
}

function checkHours(value: unknown): string | undefined {
  if (value === undefined) return undefined
  if (!isObject(value) || !hasOnly(value, ['fromMinute', 'toMinute', 'timeZone', 'outside']))
    return 'Expected hours as {fromMinute, toMinute, timeZone, outside}.'
  const isMinute = (minute: unknown) =>
    Number.isInteger(minute) && (minute as number) >= 0 && (minute as number) < 1_440
  if (!isMinute(value['fromMinute']) || !isMinute(value['toMinute']))
    return 'Expected the minutes of hours from 0 to 1439.'
  if (value['outside'] !== 'ask' && value['outside'] !== 'deny')
    return 'Expected hours.outside to be ask or deny.'
  try {
    new Intl.DateTimeFormat('en-GB', { timeZone: value['timeZone'] as string })
    return typeof value['timeZone'] === 'string' ? undefined : 'Expected hours.timeZone to be an IANA name.'
  } catch {
    return 'Expected hours.timeZone to be an IANA name, such as Europe/Vienna.'
  }
}

function checkAmounts(value: Record<string, unknown>, assets: AssetTable): string | undefined {
  const { assets: rules, fees = [] } = value
  const amounts = ['perTransaction', 'perDay', 'autoApproveUpTo']
  const hasForm = (rule: unknown, names: string[]): rule is Record<string, string> =>
    isObject(rule) && hasOnly(rule, names) && Object.values(rule).every((text) => typeof text === 'string')
  const formOf = (list: unknown, names: string[], needed: string[], expected: string): string | undefined =>
    Array.isArray(list) &&
    list.every((rule) => hasForm(rule, names) && needed.every((name) => Object.hasOwn(rule, name)))
      ? undefined
      : `Expected ${expected}, all strings.${strange(list, names, needed)}`
  const all = ['chain', 'symbol', ...amounts]
  const fee = ['chain', ...amounts]
  const form =
    formOf(
      rules,
      all,
      all,
      'assets to be a list of {chain, symbol, perTransaction, perDay, autoApproveUpTo}',
    ) ??
    formOf(fees, fee, ['chain'], 'fees to be a list of {chain, perTransaction?, perDay?, autoApproveUpTo?}')
  if (form !== undefined) return form
  const policy = value as unknown as Policy
  const seen = new Set<string>()
  try {
    for (const { chain, symbol } of policy.assets) {
      const asset = assets.chains.named(chain) === undefined ? undefined : assets.bySymbol(chain, symbol)
      if (asset === undefined) return noSuchAsset(chain, symbol, assets)
      if (seen.has(asset.id)) return `Expected only one rule for ${symbol} on ${chain}.`
      seen.add(asset.id)
      const limits = limitsOf(policy, asset.id, assets)!
      if (limits.autoApproveUpTo > limits.perTransaction || limits.perTransaction > limits.perDay)
        return `Expected autoApproveUpTo ≤ perTransaction ≤ perDay for ${symbol} on ${chain}.`
    }
    for (const { chain } of policy.fees ?? []) {
      if (assets.chains.named(chain) === undefined) return noSuchChain(chain, assets)
      if (seen.has(chain)) return `Expected only one fee rule for ${chain}.`
      seen.add(chain)
      feeLimitsOf(policy, chain, assets)
    }
  } catch (error) {
    if (isTollgateError(error)) return error.message
    throw error
  }
}

const quoted = (text: string): string => JSON.stringify(text.slice(0, 40))

const hint = (word: string, candidates: readonly string[]): string => {
  const meant = nearMiss(word, candidates)
  return meant === undefined ? '' : ` Did you mean ${meant}?`
}

/** The first unexpected or invalid field in a list of rules. */
function strange(list: unknown, names: readonly string[], needed: readonly string[]): string {
  for (const rule of Array.isArray(list) ? list.filter(isObject) : []) {
    for (const [name, value] of Object.entries(rule)) {
      if (!names.includes(name)) return ` Got ${quoted(name)}.${hint(name, names)}`
      if (typeof value !== 'string') return ` Got ${name} without quotes around its value.`
    }
    const missing = needed.find((name) => !Object.hasOwn(rule, name))
    if (missing !== undefined) return ` Got an entry without ${missing}.`
  }
  return ''
}

function noSuchChain(chain: string, { chains }: AssetTable): string {
  const names = chains.all.map(({ name }) => name)
  return `Expected one of the chains ${names.join(', ')}, got ${quoted(chain)}.${hint(chain, names)}`
}

function noSuchAsset(chain: string, symbol: string, assets: AssetTable): string {
  const facts = assets.chains.named(chain)
  if (facts === undefined) return noSuchChain(chain, assets)
  const symbols = [facts.native.symbol, ...assets.tokensOf(facts.name).map((token) => token.symbol)]
  return `Expected a known asset on ${chain} (${symbols.join(', ')}), got ${quoted(symbol)}.${hint(symbol, symbols)}`
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const hasOnly = (object: Record<string, unknown>, names: readonly string[]): boolean =>
  Object.keys(object).every((key) => names.includes(key))
