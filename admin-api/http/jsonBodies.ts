import type { FastifyInstance } from 'fastify'
import { TollgateError } from '../../core/errors/error.ts'

/** Deeper JSON is nobody's request, and recursive readers further on would pay for it. */
const MAX_DEPTH = 64
const jsonTypes = /^application\/(?:[\w.-]+\+)?json(?:;|$)/i

/**
 * Reads JSON bodies, and no other kind. An empty body is no body, whatever its Content-Type says: clients send
 * `application/json` with GET, DELETE and bodiless POST. A compressed one is refused. Refused as VALIDATION_ERROR:
 * malformed JSON, bytes that are not UTF-8 (RFC 8259, section 8.1), more than 64 levels, `__proto__` keys, and text that no
 * database keeps (NUL, lone surrogates).
 */
export function readJsonBodies(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.addHook('preParsing', async ({ headers }, reply) => {
    const coding = headers['content-encoding']
    const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
    if (!coding || coding.toLowerCase() === 'identity' || !hasBody) return
    // RFC 9110, section 15.5.16.
    reply.header('accept-encoding', 'identity')
    throw new TollgateError(
      'UNSUPPORTED_MEDIA_TYPE',
      'The body is compressed. Send it without Content-Encoding.',
    )
  })
  app.addContentTypeParser(jsonTypes, { parseAs: 'buffer' }, (request, body, done) => {
    const text = textOf(body as Buffer)
    // A name in another encoding would be kept with its letters lost.
    if (text === undefined) return done(new TollgateError('VALIDATION_ERROR', 'The body is not UTF-8.'))
    if (text.trim() === '') return done(null, undefined)
    parse(request, text, (error, value) => {
      if (error) return done(new TollgateError('VALIDATION_ERROR', 'The body is not valid JSON.'))
      const problem = problemIn(value)
      if (problem !== undefined) return done(new TollgateError('VALIDATION_ERROR', problem))
      done(null, value)
    })
  })
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => {
    if (body.length === 0) return done(null, undefined)
    done(
      new TollgateError(
        'UNSUPPORTED_MEDIA_TYPE',
        'The body is not JSON. Send Content-Type: application/json.',
      ),
    )
  })
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Without the byte order mark that some clients begin with; undefined when it is not UTF-8. */
function textOf(body: Buffer): string | undefined {
  try {
    return utf8.decode(body)
  } catch {
    return undefined
  }
}

/** Walks without recursion, so that depth costs no stack. */
function problemIn(root: unknown): string | undefined {
  const stack: [value: unknown, depth: number][] = [[root, 0]]
  for (let entry = stack.pop(); entry !== undefined; entry = stack.pop()) {
    const [value, depth] = entry
    if (typeof value === 'string' && !isStorable(value)) return unstorable
    if (typeof value !== 'object' || value === null) continue
    if (depth >= MAX_DEPTH) return `The body is nested more than ${MAX_DEPTH} levels deep.`
    if (Array.isArray(value)) {
      for (const child of value) stack.push([child, depth + 1])
      continue
    }
    // Not by Object.entries, which takes four times as long for an object of a hundred thousand keys.
    for (const key in value) {
      if (!isStorable(key)) return unstorable
      stack.push([(value as Record<string, unknown>)[key], depth + 1])
    }
  }
}

const unstorable =
  'The body holds text with a NUL character or half a surrogate pair; send well-formed Unicode.'
const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes('\0')
