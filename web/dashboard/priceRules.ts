/** The part of a request that a condition compares. */
export type Part = 'method' | 'path' | 'query' | 'header' | 'body'

/** A condition as its fields. */
export interface ConditionFields {
  readonly key: number
  readonly part: Part
  /** Name of the parameter or header, or a JSON pointer. Empty for a method and a path. */
  readonly name: string
  /** The values, separated by commas. */
  readonly values: string
}

export interface RuleFields {
  readonly key: number
  readonly conditions: readonly ConditionFields[]
  readonly price: string
}

/** A table of prices by request as its fields. */
export interface TableFields {
  readonly rules: readonly RuleFields[]
  readonly otherwise: string
  /** True if a request that fits no rule is refused. */
  readonly refusesOthers: boolean
}

/** Whether a condition on this part has a name. */
export const isNamed = (part: Part): boolean => part !== 'method' && part !== 'path'

let keys = 0
/** A new key. Rows keep their keys while they move, so that they keep the focus. */
export const newKey = (): number => ++keys

const parts: readonly Part[] = ['method', 'path', 'query', 'header', 'body']

/**
 * Reads a table from the JSON of a price.
 *
 * @returns undefined for any other JSON, and for a table that the fields cannot show, such as one with a comma in a value
 */
export function tableIn(text: string): TableFields | undefined {
  let given: unknown
  try {
    given = JSON.parse(text)
  } catch {
    return undefined
  }
  if (!isObject(given) || !hasOnly(given, ['rules', 'otherwise']) || !Array.isArray(given['rules']))
    return undefined
  const { otherwise } = given
  const rules = given['rules'].map(ruleIn)
  if (rules.some((rule) => rule === undefined)) return undefined
  if (otherwise !== null && typeof otherwise !== 'string') return undefined
  return { rules: rules as RuleFields[], otherwise: otherwise ?? '', refusesOthers: otherwise === null }
}

type Json = Readonly<Record<string, unknown>>

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const hasOnly = (object: Json, names: readonly string[]): boolean =>
  Object.keys(object).every((name) => names.includes(name))

function ruleIn(rule: unknown): RuleFields | undefined {
  if (!isObject(rule) || !hasOnly(rule, ['when', 'price'])) return undefined
  const { when, price } = rule
  if (!isObject(when) || !hasOnly(when, parts) || typeof price !== 'string') return undefined
  const conditions: ConditionFields[] = []
  for (const part of parts) {
    const given = when[part]
    if (given === undefined) continue
    if (isNamed(part) && !isObject(given)) return undefined
    for (const [name, values] of isNamed(part) ? Object.entries(given as Json) : [['', given] as const]) {
      const text = valuesIn(values)
      if (text === undefined) return undefined
      conditions.push({ key: newKey(), part, name, values: text })
    }
  }
  return { key: newKey(), conditions, price }
}

function valuesIn(values: unknown): string | undefined {
  const list: readonly unknown[] = Array.isArray(values) ? values : [values]
  const isPlain = (one: unknown) => typeof one === 'string' && !one.includes(',') && one === one.trim()
  const isShown = list.every(isPlain) && (list.length < 2 || !list.includes(''))
  return isShown ? list.join(', ') : undefined
}

/** The text of a table with a repeated condition. It is not JSON, so the form refuses it and no condition is lost. */
export const REPEATED_CONDITION = 'a repeated condition'

/** The JSON of a table, or {@link REPEATED_CONDITION}. */
export function textOf(table: TableFields): string {
  if (repeatedCondition(table) !== undefined) return REPEATED_CONDITION
  const { rules, otherwise, refusesOthers } = table
  const price = {
    rules: rules.map(({ conditions, price }) => ({ when: whenOf(conditions), price: price.trim() })),
    otherwise: refusesOthers ? null : otherwise.trim(),
  }
  return JSON.stringify(price, null, 2)
}

function whenOf(conditions: readonly ConditionFields[]): Json {
  const when: Record<string, unknown> = {}
  for (const { part, name, values } of conditions) {
    const list = values
      .split(',')
      .map((one) => one.trim())
      .filter((one) => one !== '')
    const value = list.length > 1 ? list : (list[0] ?? '')
    when[part] = isNamed(part) ? { ...(when[part] as Json | undefined), [name.trim()]: value } : value
  }
  return when
}

/** Two conditions of a rule that compare the same part, of which JSON could keep only one. */
export function repeatedCondition({ rules }: TableFields): { readonly rule: number } | undefined {
  for (const [rule, { conditions }] of rules.entries()) {
    const seen = conditions.map(
      ({ part, name }) => `${part} ${part === 'header' ? name.trim().toLowerCase() : name.trim()}`,
    )
    if (new Set(seen).size < seen.length) return { rule }
  }
}
