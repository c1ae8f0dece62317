import type { FastifyInstance } from 'fastify'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { answers, exactly, flag, listOf, success, text, uuid } from '../schema/answers.ts'
import type { Infer } from '../schema/infer.ts'
import { operatorOnly } from './operatorSession.ts'

const programQuery = {
  type: 'object',
  required: ['link'],
  properties: {
    link: {
      type: 'string',
      minLength: 1,
      maxLength: 2_048,
      description: '`<seller>/<slug>`, or the address of its page or of its calls.',
    },
  },
} as const

const entry = exactly({
  plugin: text(),
  phases: listOf(text()),
  links: {
    type: ['array', 'null'],
    items: text(),
    description: 'Its `when.links`; null where it runs for all links.',
  },
  paid: { type: ['boolean', 'null'], description: 'Its `when.paid`.' },
  settings: listOf(exactly({ name: text(), value: {}, isDefault: flag })),
})

const program = exactly({
  id: uuid,
  link: text(),
  title: text(),
  price: text('In USDC; `0` is free.'),
  settle: { enum: ['after', 'before'] },
  isSuspended: flag,
  steps: listOf(exactly({ phase: text(), plugin: text() })),
  deliver: listOf(text()),
  log: listOf(text()),
  entries: listOf(entry),
  problems: listOf(text('Why its calls are refused.')),
})

/** `GET /api/operator/program`: what runs for a link, and why. */
export function operatorProgramRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Querystring: Infer<typeof programQuery> }>(
    '/api/operator/program',
    {
      onRequest: operatorOnly(api),
      schema: {
        summary: "Read a link's program",
        description:
          "The plugins that a call of the link runs through, in order, as `tollgate check` prints them, and the entries of the configuration that they come from with their settings, without secrets. Of the plugins that run now, in the admin API's process.",
        querystring: programQuery,
        security: [{ operator: [] }],
        response: answers({ 200: success(program) }, 400, 401, 403, 404, 503),
      },
    },
    async (request) => {
      const address = addressIn(request.query.link)
      const link = address && (await api.links.served(...address))
      if (link === undefined)
        throw new TollgateError(
          'NOT_FOUND',
          'No link is called there. Expected <seller>/<slug>, such as alice/weather, or the address of its calls.',
        )
      const { steps, deliver, log, problems, takesNoPayment, entries } = api.operator!.programOf(link)
      const { id, title, price, settle, suspension } = link
      return ok({
        ...{ id, link: address!.join('/'), title, price, settle, isSuspended: suspension !== null },
        ...{ steps, deliver, log },
        entries: entries.map(({ when, ...rest }) => ({
          ...{ ...rest, links: when?.links ?? null, paid: when?.paid ?? null },
        })),
        problems: takesNoPayment ? [...problems, 'No plugin takes payments for it.'] : problems,
      })
    },
  )
}

/** Seller and slug, of what somebody may have copied. */
function addressIn(given: string): [username: string, slug: string] | undefined {
  const path = given
    .trim()
    .replace(/^https?:\/\/[^/]+/, '')
    .replace(/[?#].*$/s, '')
  const [, username, slug] = /^\/?(?:api\/link\/)?([\w-]{1,64})\/([\w-]{1,64})\/?$/.exec(path) ?? []
  return username === undefined || slug === undefined ? undefined : [username, slug]
}
