/** Fields of the import form. */
export interface ImportFields {
  /** OpenAPI document, as YAML or JSON. */
  readonly document: string
  readonly price: string
  /** One rule per line, such as `POST /render = 0.05`. */
  readonly rules: string
  readonly as: 'each' | 'one'
  /** With `as it was`, a repeated import keeps the visibility that the seller has set since. */
  readonly visibility: 'listed' | 'unlisted' | 'as it was'
  readonly server: string
  readonly source: string
  /** One header per line, such as `X-Key: value`. */
  readonly headers: string
}

/** Maximum size of a document, in bytes. */
export const MAX_DOCUMENT_BYTES = 16_000_000

export interface ImportBody {
  /** Body of `POST /api/v1/links/import`, without `dryRun` and `offset`. */
  readonly body: Readonly<Record<string, unknown>>
  /** Errors by field of the body. Empty if there are none. */
  readonly errors: Readonly<Record<string, string>>
}

/** Reads the form. The gateway makes the other checks. */
export function importBody(fields: ImportFields): ImportBody {
  const { document, price, rules, as, visibility, server, source, headers } = fields
  const errors: Record<string, string> = {}
  const bytes = new TextEncoder().encode(document).length
  if (document.trim() === '') errors['document'] = 'Choose a file, or paste the document.'
  else if (bytes > MAX_DOCUMENT_BYTES)
    errors['document'] =
      `The document is ${megabytes(bytes)}, and the limit is ${megabytes(MAX_DOCUMENT_BYTES)}. Split the document and import the parts.`
  const prices = pairsIn(rules, '=', 'last')
  if (prices.bad !== undefined)
    errors['prices'] =
      `Line ${prices.bad} is not a price rule. Write an operation, = and a price, such as POST /render = 0.05.`
  const sent = headersIn(headers)
  if (sent.error !== undefined) errors['upstreamHeaders'] = sent.error
  return {
    body: {
      document,
      as,
      ...(price.trim() !== '' && { price: price.trim() }),
      ...(as === 'each' && prices.pairs.length > 0 && { prices: Object.fromEntries(prices.pairs) }),
      ...(visibility !== 'as it was' && { isPublic: visibility === 'listed' }),
      ...(server.trim() !== '' && { server: server.trim() }),
      ...(source.trim() !== '' && { source: source.trim() }),
      ...(headers.trim() !== '' && { upstreamHeaders: sent.headers }),
    },
    errors,
  }
}

/** `1.2 MB`. */
export const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`

/** Parses a text with one header per line. */
export function headersIn(text: string): { headers: Record<string, string>; error: string | undefined } {
  const { pairs, bad } = pairsIn(text, ':', 'first')
  // The message does not contain the line, because it may be a secret.
  const error = bad === undefined ? undefined : `Line ${bad} is not a header. Write X-Key: value.`
  return { headers: Object.fromEntries(pairs), error }
}

/** Name and value of each line. `bad` is the number of the first line that cannot be parsed. */
function pairsIn(text: string, sign: '=' | ':', at: 'first' | 'last') {
  const pairs: [string, string][] = []
  let bad: number | undefined
  for (const [i, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue
    const position = at === 'first' ? line.indexOf(sign) : line.lastIndexOf(sign)
    const [name, value] = [line.slice(0, Math.max(position, 0)).trim(), line.slice(position + 1).trim()]
    if (name === '' || value === '') bad ??= i + 1
    else pairs.push([name, value])
  }
  return { pairs, bad }
}
