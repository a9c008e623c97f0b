/** Why a call is allowed or refused: paste what is known of it, and read the explanation. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Attributes, DecisionView } from '@sluice/client'
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
  Link,
  Loading,
  Note,
  Page,
  Row,
  Text,
  TextArea,
  TextField,
} from '../ui/index.js'
import { aboutRule } from './why/about-rule.js'
import { answerOf } from './why/answer.js'
import { AnswerView } from './why/answer-view.js'
import { forAddress } from './why/for-address.js'
import { meetRule } from './why/meet-rule.js'
import { readAsked, writeAsked } from './why/read-asked.js'
import type { Asked } from './why/read-object.js'

interface State {
  readonly decision?: DecisionView | undefined
  /** What was asked, with the rule that it was asked about. */
  readonly asked?: Question | undefined
  readonly error?: unknown
  readonly isBusy: boolean
}

interface Question {
  readonly call: Asked
  readonly price: string
  readonly about: string | undefined
}

const COST = 'cost'
const RULE = 'rule'
/** The caller alone is known: the rest shall be such that the rule is met. */
const MEET = 'meet'
const OURS: readonly string[] = [COST, RULE, MEET]

export function WhyPage() {
  const { query } = route.value
  const given = useMemo(() => attributesOf(query), [query])
  const about = query.get(RULE) ?? undefined
  const [text, setText] = useState(() => writeAsked(given))
  const [cost, setCost] = useState(query.get(COST) ?? '1')
  const { state, ask } = usePeek()
  const asked = useMemo(() => readAsked(text), [text])
  // Who comes here with attributes in the address wants the answer, not a form.
  useEffect(() => {
    if (Object.keys(given).length === 0 && about === undefined) return undefined
    return withCall(query, (attributes) => {
      setText(writeAsked(attributes))
      void ask({ call: { attributes, notes: [] }, price: query.get(COST) ?? '1', about })
    })
  }, [given])
  const { attributes: shown, kept } = forAddress(asked.attributes, given)
  const link = linkOf({ ...asked, attributes: shown }, cost, about)
  const isNone = Object.keys(asked.attributes).length === 0 && about === undefined
  const isEmpty = asked.problem !== undefined || isNone
  const submit = (event: Event) => {
    event.preventDefault()
    if (isEmpty) return
    // The address asks; the same one again asks anew, and so does what may not stand in it.
    if (link === hrefOf(query) || kept.length > 0) void ask({ call: asked, price: cost, about })
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
            {about !== undefined && (
              <AskedAbout
                rule={about}
                made={query.has(MEET) ? madeUp(given, asked) : []}
                alone={linkOf({ ...asked, attributes: shown }, cost, undefined)}
              />
            )}
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

/** The call of an address, once the rule that it shall meet is known; returns how to give up. */
function withCall(query: URLSearchParams, use: (attributes: Attributes) => void): () => void {
  const given = attributesOf(query)
  const rule = query.has(MEET) ? query.get(RULE) : null
  let isWanted = true
  const read =
    rule === null
      ? undefined
      : api.getRule(rule).then(
          (known) => meetRule(known, given),
          // Without the rule nothing can be made up; the answer says what else is wrong.
          (error: unknown) => (leaveIfOut(error) ? undefined : given),
        )
  if (read === undefined) use(given)
  void read?.then((attributes) => {
    if (isWanted && attributes !== undefined) use(attributes)
  })
  return () => {
    isWanted = false
  }
}

const madeUp = (given: Attributes, { attributes }: Asked): readonly string[] =>
  Object.keys(attributes).filter((name) => !Object.hasOwn(given, name))

/** Asks the server; an answer that comes late is dropped. */
function usePeek() {
  const [state, setState] = useState<State>({ isBusy: false })
  const latest = useRef(0)
  const ask = async (asked: Question) => {
    const { attributes, cost } = asked.call
    const mine = ++latest.current
    setState((old) => ({ ...old, error: undefined, isBusy: true }))
    try {
      const decision = await api.peek({ attributes, cost: cost ?? numberOf(asked.price) })
      if (mine === latest.current) setState({ decision, asked, isBusy: false })
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
      {decision !== undefined && <Answers decision={decision} asked={state.asked} />}
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

interface AnswersProps {
  readonly decision: DecisionView
  readonly asked: Question | undefined
}

function Answers({ decision, asked }: AnswersProps) {
  const answer = answerOf(decision)
  const about =
    asked?.about === undefined ? undefined : aboutRule(asked.about, answer, asked.call.attributes)
  return <AnswerView answer={answer} about={about} />
}

interface AskedAboutProps {
  readonly rule: string
  /** Names of attributes that nobody has seen. */
  readonly made: readonly string[]
  /** The same call, with no rule in mind. */
  readonly alone: string
}

function AskedAbout({ rule, made, alone }: AskedAboutProps) {
  return (
    <p class="soft small">
      Asked about{' '}
      <Link href={hrefs.rule(rule)}>
        <Text value={rule} mono />
      </Link>
      {made.length > 0 && (
        <>
          : of the call only the caller is known, and <Text value={made.join(', ')} max={200} />{' '}
          {made.length === 1 ? 'is' : 'are'} such that it meets the rule
        </>
      )}
      . <Link href={alone}>Ask about the call alone</Link>
    </p>
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

/** Every parameter is one but for the cost, the rule, and whether it shall be met. */
function attributesOf(query: URLSearchParams): Attributes {
  const isAttribute = ([name, value]: readonly [string, string]) =>
    !OURS.includes(name) && value !== ''
  return Object.fromEntries([...query].filter(isAttribute))
}

function linkOf({ attributes, cost }: Asked, price: string, about: string | undefined): string {
  const number = cost ?? numberOf(price)
  return hrefs.why(number === 1 ? attributes : { ...attributes, [COST]: String(number) }, about)
}

const hrefOf = (query: URLSearchParams): string => `/why?${query.toString()}`
