import { useEffect, useRef, useState } from 'preact/hooks'
import type { Asset } from '../../core/domain/asset.ts'
import { Button } from '../components/button.ts'
import { Notice } from '../components/card.ts'
import { Field, Select } from '../components/field.ts'
import { Amount } from '../components/money.ts'
import { html } from '../html.ts'
import { island } from '../island/island.ts'
import { useUnsaved } from '../shell/unsaved.ts'
import { readFromTab, removeFromTab, saveInTab } from '../tabStorage.ts'
import { type Answer, callLink, type Refusal, type Request } from './callLink.ts'
import { hasBody, queryOf } from './callSamples.ts'
import { type InputField, inputErrors, isJson, valuesOf } from './inputFields.ts'
import { PayOffer } from './payOffer.ts'
import { ReviewForm } from './reviews.ts'

export interface TryItProps {
  /** URL path of the link. */
  readonly path: string
  readonly method: string
  readonly fields: readonly InputField[]
  /** Price as a decimal string. Null for a free link. */
  readonly price: string | null
  /** The highest price, if the price depends on the request. */
  readonly priceMax: string | null
  /** Tokens that the gateway accepts. */
  readonly assets: readonly Asset[]
}

type Filled = Readonly<Record<string, string>>

/** Name of the free-form input. It is used if the seller describes no fields. */
const FREE = ''

/** The form of a link's input, with the call, its payment and its response. */
function TryItView({ path, method, fields, price, priceMax, assets }: TryItProps) {
  const [filled, setFilled] = useState<Filled>(() => firstOf(fields))
  const [refused, setRefused] = useState<Refused>()
  const form = useRef<{ querySelector(selector: string): { focus(): void } | null }>(null)
  const [answer, setAnswer] = useState<Answer>()
  const [fault, setFault] = useState<string>()
  const [asked, setAsked] = useState<Request>()
  const [sent, setSent] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  /** Counts responses. It is the key of the offer, which therefore starts without earlier state. */
  const [round, setRound] = useState(0)

  const call = async (request: Request, payment?: string) => {
    setBusy(true)
    setFault(undefined)
    setAsked(request)
    setSent(payment)
    // The payment is stored, so that the page can still request the response after a reload.
    if (payment !== undefined) saveInTab(callKey(path), JSON.stringify([request, payment]))
    try {
      const came = await callLink(request, payment)
      if (payment !== undefined && !isUnsure(came)) removeFromTab(callKey(path))
      setAnswer(came)
      setRound((before) => before + 1)
    } catch {
      setFault(payment === undefined ? 'The service did not respond. Try again.' : lostWhilePaying)
    } finally {
      setBusy(false)
    }
  }
  const submit = (event: { preventDefault(): void }) => {
    event.preventDefault()
    if (isOpen || isBusy) return
    const errors = errorsOf(method, fields, filled)
    setRefused({ filled, errors })
    if (errors.size === 0) void call({ ...requestOf(path, method, fields, filled), key: newKey() })
  }
  useEffect(() => form.current?.querySelector('[aria-invalid="true"]')?.focus(), [refused])
  const at = (name: string) => ({
    value: filled[name] ?? '',
    // The error disappears when its field changes.
    error: filled[name] === refused?.filled[name] ? refused?.errors.get(name) : undefined,
    onInput: (value: string) => setFilled((before) => ({ ...before, [name]: value })),
  })
  useEffect(() => {
    const kept = savedCall(path)
    if (kept === undefined) return
    const [request, payment] = kept
    setAsked(request)
    setSent(payment)
    setFault(lostWhilePaying)
  }, [path])
  const giveUp = () => {
    removeFromTab(callKey(path))
    setSent(undefined)
    setFault(undefined)
    setAnswer(undefined)
  }
  const { offer, refusal } = answer ?? {}
  // A payment buys one call. The same call with the same payment gets the same response at no extra cost.
  const isOpen = sent !== undefined && (fault !== undefined || (answer !== undefined && isUnsure(answer)))
  // The buyer is asked before leaving, because the payment with which the response can still be requested would be lost.
  useUnsaved(isOpen || (sent !== undefined && isBusy))
  return html`<div class="stack try">
    <form class="stack" ref=${form} onSubmit=${submit} novalidate>
      ${fields.length > 0 && html`<div class="fields">${fields.map((field) => html`<${InputControl} field=${field} ...${at(field.name)} />`)}</div>`}
      ${
        fields.length === 0 &&
        html`<${Field}
          id="free-input"
          label=${hasBody(method) ? 'Body (JSON)' : 'Query'}
          hint=${hasBody(method) ? undefined : 'For example city=Lisbon. You can leave this field empty.'}
          ...${at(FREE)}
          ...${hasBody(method) ? { rows: 4 } : {}}
        />`
      }
      <div class="row">
        <${Button} kind="primary" type="submit" isBusy=${isBusy} disabled=${isOpen}>${price === null ? 'Call it' : html`<span>Call it for <${Amount} value=${price} upTo=${priceMax} /></span>`}<//>
        <span class="small soft">${price === null ? 'This call is free.' : 'You pay nothing until you confirm in your wallet.'}</span>
      </div>
    </form>
    <noscript><p class="soft">This form needs JavaScript. The code below works everywhere.</p></noscript>
    <div class="stack said" aria-live="polite">
      ${fault && html`<${Notice} tone="bad" title=${fault} />`}
      ${
        isOpen &&
        asked &&
        html`<div class="row">
          <${Button} isBusy=${isBusy} onClick=${() => call(asked, sent)}>Retry with the same payment<//>
          <${Button} kind="quiet" disabled=${isBusy} onClick=${giveUp}>Discard and pay again<//>
        </div>`
      }
      ${refusal && fault === undefined && !isBusy && html`<${Notice} tone="bad" title="The payment was refused">${wordsOf(refusal)} Nothing was paid. You can try again.<//>`}
      ${
        offer &&
        asked &&
        !isOpen &&
        html`<${PayOffer} key=${round} offer=${offer} assets=${assets} isBusy=${isBusy} onSigned=${(payment: string) => call(asked, payment)} />`
      }
      ${answer && !offer && html`<${ResponseView} answer=${answer} />`}
    </div>
    ${answer && !offer && html`<${Review} key=${round} answer=${answer} />`}
  </div>`
}

const lostWhilePaying =
  'The response to the paid call did not arrive. You may have been charged. Retry with the same payment, which costs nothing more.'

const callKey = (path: string): string => `tollgate-call:${path}`

/** The paid call whose response this tab has not received yet. */
function savedCall(path: string): readonly [Request, string] | undefined {
  const kept = readFromTab(callKey(path))
  return kept === null ? undefined : JSON.parse(kept)
}

/** Whether the same payment may still get a response. Either the call is running, or the payment was not processed yet. */
const isUnsure = ({ status, purchaseId }: Answer): boolean =>
  status >= 500 || ([408, 425, 429].includes(status) && purchaseId === undefined)

/** The message for a buyer with a wallet. The gateway's own message has amounts in the token's smallest unit. */
const wordsOf = ({ reason, message }: Refusal): string =>
  /insufficient|balance/i.test(reason)
    ? 'This wallet has less than the price.'
    : `The gateway returned this error: ${message}`

const firstOf = (fields: readonly InputField[]): Filled =>
  Object.fromEntries(
    fields.map(({ name, example, kind, options }) => [
      name,
      kind === 'choice' && !options.includes(example) ? '' : example,
    ]),
  )

/** A form that was not sent, and why. */
interface Refused {
  readonly filled: Filled
  readonly errors: ReadonlyMap<string, string>
}

function errorsOf(method: string, fields: readonly InputField[], filled: Filled): Refused['errors'] {
  if (fields.length > 0 || !hasBody(method) || isJson(filled[FREE] || '{}'))
    return inputErrors(fields, filled)
  return new Map([[FREE, 'Enter JSON, such as {"city": "Lisbon"}, or leave this field empty.']])
}

/** @param filled values for which {@link errorsOf} found no error */
function requestOf(path: string, method: string, fields: readonly InputField[], filled: Filled): Request {
  const free = filled[FREE] ?? ''
  if (!hasBody(method)) {
    const query =
      fields.length === 0 ? free.trim().replace(/^\??(?=.)/, '?') : queryOf(valuesOf(fields, filled))
    return { url: path + query, method }
  }
  const body = fields.length > 0 ? valuesOf(fields, filled) : JSON.parse(free || '{}')
  return { url: path, method, body: JSON.stringify(body) }
}

const InputControl = ({
  field: { name, kind, isRequired, description, options },
  value,
  error,
  onInput,
}: {
  readonly field: InputField
  readonly value: string
  readonly error: string | undefined
  readonly onInput: (value: string) => void
}) => {
  const id = `input-${name}`
  const label = isRequired ? `${name} (required)` : name
  if (kind === 'choice' || kind === 'flag') {
    const values = kind === 'flag' ? ['true', 'false'] : options
    const choices = [{ value: '', label: '–' }, ...values.map((one) => ({ value: one, label: one }))]
    return html`<${Select} id=${id} label=${label} value=${value} hint=${description || undefined} error=${error} options=${choices} onChange=${onInput} />`
  }
  return html`<${Field}
    id=${id}
    label=${label}
    value=${value}
    hint=${description || undefined}
    error=${error}
    onInput=${onInput}
    ...${kind === 'json' ? { rows: 3 } : {}}
    ...${kind === 'number' ? { inputmode: 'decimal' } : {}}
  />`
}

const ResponseView = ({ answer: { status, ms, text, purchaseId } }: { readonly answer: Answer }) => {
  const isGood = status < 400
  return html`<section class="stack tight">
    <h3>${isGood ? 'Response' : 'The call failed'} <span class="soft small number">${status} · ${ms} ms</span></h3>
    <pre class="answer" tabindex="0"><code dir="auto">${text}</code></pre>
    ${purchaseId && html`<p class="small soft">${isGood ? 'Paid. ' : ''}Purchase <code>${purchaseId}</code></p>`}
  </section>`
}

/** The review form, shown for a paid response with a review token. */
const Review = ({ answer: { status, purchaseId, reviewToken, payer } }: { readonly answer: Answer }) =>
  status < 400 && purchaseId !== undefined && reviewToken !== undefined && payer !== undefined
    ? html`<${ReviewForm} of=${{ purchaseId, token: reviewToken, wallet: payer }} />`
    : null

/** The form on a link's page that calls the link. */
export const TryIt = island('try-it', TryItView)

/** 128 random bits. `randomUUID` does not exist on a page without TLS. */
const newKey = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
