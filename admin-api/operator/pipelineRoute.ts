import type { FastifyInstance } from 'fastify'
import { priceText } from '../../core/domain/pricing.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import type { Infer } from '../http/fields.ts'
import { exactly, field, listOf, ok, respond, success } from '../http/responses.ts'
import { operatorOnly } from './operatorRoutes.ts'

const pipelineQuery = {
  type: 'object',
  required: ['link'],
  properties: {
    link: {
      type: 'string',
      minLength: 1,
      maxLength: 2_048,
      description: 'The link as `<seller>/<slug>`, as the URL of its page or as the URL of its calls.',
    },
  },
} as const

const entry = exactly({
  plugin: field.text(),
  phases: listOf(field.text()),
  links: {
    type: ['array', 'null'],
    items: field.text(),
    description: '`when.links` of the entry. Null if the plugin runs for all links.',
  },
  paid: { type: ['boolean', 'null'], description: '`when.paid` of the entry.' },
  settings: listOf(exactly({ name: field.text(), value: {}, isDefault: field.flag })),
})

const pipeline = exactly({
  id: field.uuid,
  link: field.text(),
  title: field.text(),
  price: field.text(
    'The price of a call in USDC, such as `0.01` or `from 0.01 to 0.05`. `0` means a free link.',
  ),
  settle: { enum: ['after', 'before'] },
  isSuspended: field.flag,
  steps: listOf(exactly({ phase: field.text(), plugin: field.text() })),
  deliver: listOf(field.text()),
  log: listOf(field.text()),
  entries: listOf(entry),
  problems: listOf(field.text('Why the gateway refuses calls of the link.')),
})

/** `GET /api/operator/program` returns the pipeline of a link, and the configuration entries that it comes from. */
export function operatorPipelineRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Querystring: Infer<typeof pipelineQuery> }>(
    '/api/operator/program',
    {
      onRequest: operatorOnly(api),
      schema: {
        summary: 'Read the pipeline of a link',
        description:
          'Lists the plugins that run for a call of the link, in order, as `tollgate check` prints them. Also lists the entries of the configuration for these plugins, without secrets. The data comes from the process of the admin API.',
        querystring: pipelineQuery,
        security: [{ operator: [] }],
        response: respond({ 200: success(pipeline) }, [400, 401, 403, 404, 503]),
      },
    },
    async (request) => {
      const address = addressIn(request.query.link)
      const link = address && (await api.links.served(...address))
      if (link === undefined)
        throw new TollgateError(
          'NOT_FOUND',
          'No link is at this address. Expected <seller>/<slug>, such as alice/weather, or the URL of its calls.',
        )
      const { steps, deliver, log, problems, takesNoPayment, entries } = api.operator!.pipelineOf(link)
      const { id, title, settle, suspension } = link
      return ok({
        id,
        link: address!.join('/'),
        title,
        price: priceText(link),
        settle,
        isSuspended: suspension !== null,
        steps,
        deliver,
        log,
        entries: entries.map(({ when, ...rest }) => ({
          ...rest,
          links: when?.links ?? null,
          paid: when?.paid ?? null,
        })),
        problems: takesNoPayment ? [...problems, 'No plugin accepts payments for this link.'] : problems,
      })
    },
  )
}

/** Seller and slug in a URL that the operator may have copied. */
function addressIn(given: string): [username: string, slug: string] | undefined {
  const path = given
    .trim()
    .replace(/^https?:\/\/[^/]+/, '')
    .replace(/[?#].*$/s, '')
  const [, username, slug] = /^\/?(?:api\/link\/)?([\w-]{1,64})\/([\w-]{1,64})\/?$/.exec(path) ?? []
  return username === undefined || slug === undefined ? undefined : [username, slug]
}
