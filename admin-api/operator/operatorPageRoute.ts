import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { TollgateError } from '../../core/errors/error.ts'
import { html } from '../../web/html.ts'
import { OperatorPage } from '../../web/operator/operatorPage.ts'
import type { Api } from '../deps.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { sendPage } from '../http/sendPage.ts'

/** `/operator` and every address below it: the frame of the operator's page; it says nothing of the service but its name. */
export function operatorPageRoute(app: FastifyInstance, api: Api): void {
  const onRequest = limitPerClient(api, 'page', api.limits.storePerMinute, minuteMs)
  const options = { onRequest, schema: { hide: true } }
  const show = async (_request: FastifyRequest, reply: FastifyReply) => {
    if (api.operator === undefined) {
      throw new TollgateError(
        'NOT_FOUND',
        'This service has no operator.token in its configuration, and so no page.',
      )
    }
    const { serviceName } = api
    return sendPage(reply, {
      name: 'operator',
      title: `Operator · ${serviceName}`,
      description: 'Is the gateway healthy, and is money stuck?',
      isUnlisted: true,
      body: html`<${OperatorPage} data=${{ serviceName }} />`,
    })
  }
  app.get('/operator', options, show)
  app.get('/operator/*', options, show)
}
