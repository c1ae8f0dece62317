import type { FastifyInstance } from 'fastify'
import { TollgateError } from '../../core/errors/error.ts'

/** Deeper JSON is nobody's request, and recursive readers further on would pay for it. */
const maxDepth = 64
const jsonTypes = /^application\/(?:[\w.-]+\+)?json(?:;|$)/i

/**
 * Reads JSON bodies, and no other kind. An empty body is no body, whatever its Content-Type says: clients send
 * `application/json` with GET, DELETE and bodiless POST. A compressed one is refused. Refused as VALIDATION_ERROR: malformed JSON, more than 64
 * levels, `__proto__` keys, and text that no database keeps (NUL, lone surrogates).
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
  app.addContentTypeParser(jsonTypes, { parseAs: 'string' }, (request, body, done) => {
    const text = body as string
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

/** Walks without recursion, so that depth costs no stack. */
function problemIn(root: unknown): string | undefined {
  const stack: [value: unknown, depth: number][] = [[root, 0]]
  for (let entry = stack.pop(); entry !== undefined; entry = stack.pop()) {
    const [value, depth] = entry
    if (typeof value === 'string' && !isStorable(value)) return unstorable
    if (typeof value !== 'object' || value === null) continue
    if (depth >= maxDepth) return `The body is nested more than ${maxDepth} levels deep.`
    for (const [key, child] of Object.entries(value)) {
      if (!isStorable(key)) return unstorable
      stack.push([child, depth + 1])
    }
  }
}

const unstorable =
  'The body holds text with a NUL character or half a surrogate pair; send well-formed Unicode.'
const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes('\0')
