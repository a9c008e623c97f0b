/** Why a call is allowed or refused: paste what is known of it, and read the explanation. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { DecisionView } from '@sluice/client'
import { api, leaveIfOut } from '../api.js'
import { hrefs, navigate, route } from '../router.js'
import '../styles/why.css'
import {
  Button,
  Caller,
  Card,
  CopyButton,
  Empty,
  ErrorNote,
  Loading,
  Note,
  Page,
  Row,
  Text,
  TextArea,
  TextField,
} from '../ui/index.js'
import { answerOf } from './why/answer.js'
import { AnswerView } from './why/answer-view.js'
import { forAddress } from './why/for-address.js'
import { readAsked, writeAsked } from './why/read-asked.js'
import type { Asked } from './why/read-object.js'

interface State {
  readonly decision?: DecisionView | undefined
  readonly error?: unknown
  readonly isBusy: boolean
}

const COST = 'cost'

export function WhyPage() {
  const { query } = route.value
  const given = useMemo(() => attributesOf(query), [query])
  const [text, setText] = useState(() => writeAsked(given))
  const [cost, setCost] = useState(query.get(COST) ?? '1')
  const { state, ask } = usePeek()
  const asked = useMemo(() => readAsked(text), [text])
  // Who comes here with attributes in the address wants the answer, not a form.
  useEffect(() => {
    if (Object.keys(given).length === 0) return
    setText(writeAsked(given))
    void ask({ attributes: given, notes: [] }, query.get(COST) ?? '1')
  }, [given])
  const { attributes: shown, kept } = forAddress(asked.attributes, given)
  const link = linkOf({ ...asked, attributes: shown }, cost)
  const isEmpty = asked.problem !== undefined || Object.keys(asked.attributes).length === 0
  const submit = (event: Event) => {
    event.preventDefault()
    if (isEmpty) return
    // The address asks; the same one again asks anew, and so does what may not stand in it.
    if (link === hrefOf(query) || kept.length > 0) void ask(asked, cost)
    else navigate(link, { replace: true })
  }
  return (
    <Page title="Why?" lead="What a call would get now, and which rule says so. Nothing is spent.">
      <div class="why">
        <Card title="The call">
          <form class="why-form" onSubmit={submit}>
            <TextArea
              label="Attributes, a JSON object, a curl command, or a line of the log"
              value={text}
              onInput={setText}
              rows={8}
              mono
              placeholder={'user=u1\nip=203.0.113.7\nmethod=GET\npath=/v1/orders'}
              error={asked.problem}
            />
            <TextField label="Cost" type="number" min={0} step={1} value={cost} onInput={setCost} />
            <Understood asked={asked} kept={kept} />
            <Row>
              <Button type="submit" kind="primary" isBusy={state.isBusy} isDisabled={isEmpty}>
                Explain
              </Button>
              <CopyButton text={() => location.origin + link} label="Copy link" />
            </Row>
          </form>
        </Card>
        <Answered state={state} />
      </div>
    </Page>
  )
}

/** Asks the server; an answer that comes late is dropped. */
function usePeek() {
  const [state, setState] = useState<State>({ isBusy: false })
  const latest = useRef(0)
  const ask = async ({ attributes, cost }: Asked, price: string) => {
    const mine = ++latest.current
    setState((old) => ({ ...old, error: undefined, isBusy: true }))
    try {
      const decision = await api.peek({ attributes, cost: cost ?? numberOf(price) })
      if (mine === latest.current) setState({ decision, isBusy: false })
    } catch (error) {
      if (mine === latest.current && !leaveIfOut(error)) setState({ error, isBusy: false })
    }
  }
  return { state, ask }
}

function Answered({ state }: { readonly state: State }) {
  const { decision, error, isBusy } = state
  return (
    <div class="why-answer" aria-live="polite">
      {error !== undefined && <ErrorNote error={error} />}
      {decision !== undefined && <AnswerView answer={answerOf(decision)} />}
      {decision === undefined && error === undefined && (
        <Card>
          {isBusy ? (
            <Loading what="Asking" />
          ) : (
            <Empty title="The answer comes here">
              Every rule is told of: whether it matches the call and why not, what is left of each
              limit, and the hash that stands for the caller in logs.
            </Empty>
          )}
        </Card>
      )}
    </div>
  )
}

interface UnderstoodProps {
  readonly asked: Asked
  /** Names that stay out of the address. */
  readonly kept: readonly string[]
}

function Understood({ asked, kept }: UnderstoodProps) {
  const isEmpty = Object.keys(asked.attributes).length === 0
  if (isEmpty && asked.notes.length === 0) return null
  return (
    <div class="why-read">
      {!isEmpty && (
        <p>
          <span class="faint small">Read as </span>
          <Caller attributes={asked.attributes} />
        </p>
      )}
      {kept.length > 0 && (
        <Note tone="neutral">
          <Text value={kept.join(', ')} max={200} /> may be a secret, and stays out of the address
          and of links.
        </Note>
      )}
      {asked.notes.map((note) => (
        <Note key={note} tone="neutral">
          <Text value={note} max={600} />
        </Note>
      ))}
    </div>
  )
}

const numberOf = (text: string): number => (/^\d{1,15}$/.test(text.trim()) ? Number(text) : 1)

/** Every parameter but the cost is an attribute. */
function attributesOf(query: URLSearchParams): Readonly<Record<string, string>> {
  return Object.fromEntries([...query].filter(([name, value]) => name !== COST && value !== ''))
}

function linkOf({ attributes, cost }: Asked, price: string): string {
  const number = cost ?? numberOf(price)
  return hrefs.why(number === 1 ? attributes : { ...attributes, [COST]: String(number) })
}

const hrefOf = (query: URLSearchParams): string => hrefs.why(Object.fromEntries(query))
