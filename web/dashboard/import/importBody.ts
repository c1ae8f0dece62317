/** Of an import, what its seller fills in. */
export interface ImportFields {
  /** OpenAPI, YAML or JSON. */
  readonly document: string
  readonly price: string
  /** One a line: `POST /render = 0.05`. */
  readonly rules: string
  readonly as: 'each' | 'one'
  /** As it was: whoever imports again leaves what he has set since. */
  readonly visibility: 'listed' | 'unlisted' | 'as it was'
  readonly server: string
  readonly source: string
  /** One a line: `X-Key: value`. */
  readonly headers: string
}

/** A document may be so large. */
export const MAX_DOCUMENT_BYTES = 16_000_000

export interface ImportBody {
  /** What `POST /api/v1/links/import` takes, without `dryRun` and `offset`. */
  readonly body: Readonly<Record<string, unknown>>
  /** What is wrong, by the field of the body; empty when nothing is. */
  readonly errors: Readonly<Record<string, string>>
}

/** Reads the form. What only the service can know is left to it. */
export function importBody(fields: ImportFields): ImportBody {
  const { document, price, rules, as, visibility, server, source, headers } = fields
  const errors: Record<string, string> = {}
  const bytes = new TextEncoder().encode(document).length
  if (document.trim() === '') errors['document'] = 'Choose a file, or paste the document.'
  else if (bytes > MAX_DOCUMENT_BYTES)
    errors['document'] =
      `The document has ${megabytes(bytes)}, and may have ${megabytes(MAX_DOCUMENT_BYTES)}. Import a part of it at a time.`
  const prices = pairsIn(rules, '=', 'last')
  if (prices.bad !== undefined)
    errors['prices'] =
      `Line ${prices.bad} is no rule: write what it is for, = and a price, such as POST /render = 0.05.`
  const sent = headersIn(headers)
  if (sent.error !== undefined) errors['upstreamHeaders'] = sent.error
  return {
    body: {
      ...{ document, as },
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

/** The headers of a text that has one a line. */
export function headersIn(text: string): { headers: Record<string, string>; error: string | undefined } {
  const { pairs, bad } = pairsIn(text, ':', 'first')
  // It may be a secret: it is not repeated.
  const error = bad === undefined ? undefined : `Line ${bad} is no header: write X-Key: value.`
  return { headers: Object.fromEntries(pairs), error }
}

/** Name and value of each line; `bad` is the number of the first one that is none. */
function pairsIn(text: string, sign: '=' | ':', at: 'first' | 'last') {
  const pairs: [string, string][] = []
  let bad: number | undefined
  for (const [i, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue
    const place = at === 'first' ? line.indexOf(sign) : line.lastIndexOf(sign)
    const [name, value] = [line.slice(0, Math.max(place, 0)).trim(), line.slice(place + 1).trim()]
    if (name === '' || value === '') bad ??= i + 1
    else pairs.push([name, value])
  }
  return { pairs, bad }
}
