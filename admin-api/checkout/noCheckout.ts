import type { FastifyReply } from 'fastify'
import { NoCheckoutPage } from '../../web/checkout/checkoutPage.ts'
import { html } from '../../web/html.ts'
import type { Api } from '../deps.ts'
import { sendPage } from '../http/sendPage.ts'

/** A page of the checkout that says why there is nothing to pay. */
export const sendNoCheckout = (
  reply: FastifyReply,
  { serviceName }: Pick<Api, 'serviceName'>,
  status: number,
  title: string,
  about: string,
): FastifyReply =>
  sendPage(reply.code(status), {
    name: 'checkout',
    title,
    description: about,
    body: html`<${NoCheckoutPage} serviceName=${serviceName} title=${title} about=${about} />`,
    isUnlisted: true,
    hasTrustedTypes: false,
  })
