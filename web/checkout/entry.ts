import { html } from '../html.ts'
import { startIslands } from '../island/startIslands.ts'
import { CheckoutApp } from './checkoutApp.ts'
import type { CheckoutProps } from './state.ts'
import { takeSecret } from './tabMemory.ts'

const sessionId = location.pathname.split('/').pop() ?? ''
const secret = takeSecret(sessionId)

void startIslands({
  checkout: () => (props: CheckoutProps) => html`<${CheckoutApp} ...${props} secret=${secret ?? ''} />`,
})
