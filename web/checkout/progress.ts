import { Button } from '../components/button.ts'
import { html } from '../html.ts'
import type { Phase } from './state.ts'

const steps = ['Your signature', 'Sending', 'Confirming'] as const

const words = (phase: Phase): { readonly at: number; readonly title: string; readonly about: string } => {
  switch (phase.at) {
    case 'connecting':
      return {
        at: 0,
        title: `Connect ${phase.walletName}`,
        about: 'Your wallet asks which account it may show here.',
      }
    case 'checking':
      return {
        at: 0,
        title: 'Checking',
        about: 'Network and balance. Your wallet may ask to change the network.',
      }
    case 'signing':
      return {
        at: 0,
        title: 'Waiting for your signature',
        about: `Look at ${phase.walletName}: it shows what you sign. It is one signature, and no gas.`,
      }
    case 'sending':
      return { at: 1, title: 'Sending', about: 'Signed. The payment is on its way to the network.' }
    case 'unheard':
      return {
        at: 1,
        title: 'No answer yet',
        about:
          'Nobody has said yet that your payment arrived. Keep this page open: the same payment is sent again until somebody does, and is charged once.',
      }
    default:
      return {
        at: 2,
        title: 'Confirming',
        about:
          'The payment was sent. It takes some seconds; you need not pay again, even if you close this page.',
      }
  }
}

/** Where a payment is on its way, in words. */
export function Progress({ phase, leaveWallet }: { readonly phase: Phase; leaveWallet(): void }) {
  const { at, title, about } = words(phase)
  return html`<div class="checkout-progress">
    <ol>
      ${steps.map(
        (step, i) =>
          html`<li data-state=${i < at ? 'done' : i === at ? 'now' : 'later'} aria-current=${i === at ? 'step' : undefined}><span>${step}</span></li>`,
      )}
    </ol>
    <div role="status">
      <h2 tabindex="-1">${title}</h2>
      <p class="soft">${about}</p>
    </div>
    ${'walletName' in phase && html`<div class="checkout-foot"><${Button} kind="quiet" size="small" class="checkout-cancel" onClick=${leaveWallet}>Choose another way to pay<//></div>`}
  </div>`
}
