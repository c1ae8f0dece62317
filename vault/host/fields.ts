import { VaultError } from '../errors/error.ts'

/** Longest text of an agent about itself or its purpose. */
const longestNote = 500

/** The fields of a request, read one by one; what is wrong is collected and told at once. */
export interface Fields {
  readonly text: (name: string, longest?: number) => string
  readonly optionalText: (name: string, longest?: number) => string | undefined
  /** Any JSON. */
  readonly required: (name: string) => unknown
  readonly optional: (name: string) => unknown
  /** Throws when anything was wrong. Called last. */
  readonly done: () => void
}

/**
 * Reads a body whose fields are known by name. A misspelt field is refused: `recipent` must not be a request without a
 * recipient. `agent_name` and `purpose` may stand in every request.
 */
export function readFields(body: unknown, known: readonly string[]): Fields {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw new VaultError('VALIDATION_ERROR', 'Expected a JSON object as body.')
  const problems: { path: string; message: string }[] = []
  const names = new Set([...known, 'agent_name', 'purpose'])
  for (const key of Object.keys(body)) {
    if (!names.has(key))
      problems.push({ path: key.slice(0, 64), message: `Expected one of ${[...names].join(', ')}.` })
  }
  const own = (name: string): unknown =>
    Object.hasOwn(body, name) ? (body as Record<string, unknown>)[name] : undefined
  const bad = (path: string, message: string): void => void problems.push({ path, message })

  const optionalText = (name: string, longest = longestNote): string | undefined => {
    const value = own(name)
    if (value === undefined) return undefined
    if (typeof value === 'string' && value.length > 0 && value.length <= longest) return value
    bad(name, `Expected a text of 1 to ${longest} characters.`)
    return undefined
  }
  optionalText('agent_name', longestNote)
  return {
    optionalText,
    text(name, longest) {
      if (own(name) === undefined) bad(name, 'Expected this field, it is missing.')
      return optionalText(name, longest) ?? ''
    },
    required(name) {
      const value = own(name)
      if (value === undefined || value === null) bad(name, 'Expected this field, it is missing.')
      return value
    },
    optional: own,
    done() {
      if (problems.length === 0) return
      const [first] = problems
      throw new VaultError('VALIDATION_ERROR', `${first!.path}: ${first!.message}`, { details: problems })
    },
  }
}
