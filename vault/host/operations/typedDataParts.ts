import { parseStrictJson } from '../../../core/x402/strictJson.ts'
import type { PartDraft } from '../../approvals/shownPart.ts'

type Json = Readonly<Record<string, unknown>>
type Types = Readonly<Record<string, readonly { readonly name: string; readonly type: string }[]>>

/** EIP-712, "Definition of domainSeparator": the order in which a domain's fields are hashed. */
const domainOrder = ['name', 'version', 'chainId', 'verifyingContract', 'salt']

/**
 * Typed data that was decoded before, for showing it whole: domain, message and types, every object in the order of its
 * type, which is the order of what is hashed and not the one in which the agent wrote it. A member that no type names
 * comes last and says so.
 *
 * @param typedData as in the request, text or object
 */
export function typedDataParts(typedData: unknown): PartDraft[] {
  const parsed = typeof typedData === 'string' ? parseStrictJson(typedData) : undefined
  const { domain, types, primaryType, message } = (
    parsed === undefined ? typedData : parsed.ok ? parsed.value : {}
  ) as { domain: Json; types: Types; primaryType: string; message: Json }
  const { EIP712Domain: _, ...own } = types
  return [
    jsonPart('Domain', ordered(domain, domainOrder)),
    jsonPart('Message', inOrder(message, primaryType, own)),
    jsonPart('Types', { primaryType, types: own }),
  ]
}

function inOrder(value: unknown, type: string, types: Types): unknown {
  if (Array.isArray(value)) {
    const of = type.replace(/\[\d*\]$/, '')
    return value.map((item) => inOrder(item, of, types))
  }
  if (typeof value !== 'object' || value === null) return value
  const fields = Object.hasOwn(types, type) ? types[type]! : []
  const typeOf = new Map(fields.map((field) => [field.name, field.type]))
  const inner = Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, inOrder(item, typeOf.get(name) ?? '', types)]),
  )
  return ordered(inner, [...typeOf.keys()])
}

function ordered(value: Json, names: readonly string[]): Json {
  const named = names.filter((name) => Object.hasOwn(value, name)).map((name) => [name, value[name]])
  const others = Object.keys(value)
    .filter((name) => !names.includes(name))
    .map((name) => [`${name} (no type names it: not signed)`, value[name]])
  return Object.fromEntries([...named, ...others])
}

/** Laid out for reading; size and hash are of the same JSON without spaces. */
const jsonPart = (title: string, value: unknown): PartDraft => ({
  title,
  content: JSON.stringify(value),
  shownAs: JSON.stringify(value, null, 2),
  format: 'json',
})
