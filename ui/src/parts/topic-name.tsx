// The name of a topic as a link; `@shared` and its like stand for no topic and lead nowhere.
import { Link } from "wouter";
import { topicPath } from "./address";

export function TopicName({ name }: { name: string }) {
  return name.startsWith("@") ? <span>{name}</span> : <Link href={topicPath(name)}>{name}</Link>;
}
